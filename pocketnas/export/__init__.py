"""From a network to a verified TFLite and ONNX file, through one small NHWC graph."""
