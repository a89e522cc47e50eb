"""`make validate`: how well the hybrid metric predicts real human ratings."""
