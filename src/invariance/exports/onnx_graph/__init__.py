"""What an ONNX file is built of."""
