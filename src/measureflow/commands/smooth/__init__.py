"""`measureflow smooth`: how fast a graph network loses the features of a graph, and which residuals keep them."""
