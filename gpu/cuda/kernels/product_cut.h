#pragma once
// The division of a dense product into blocks. It changes no bit.
#include <cstddef>
#include <cstdint>

namespace es::gpu::cuda {

// `count` products of m x n results of k terms. The batch index of product i is (i / inner, i mod
// inner).
struct ProductShape {
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t count = 1, inner = 1;
};
// The distances between the matrices of a batch, from one outer or inner index to the next.
struct BatchSteps {
  std::int64_t outer = 0, inner = 0;  // in floats
};

// Returns the number of chunks of 512 k; at least one.
std::int64_t product_chunks(const ProductShape& shape);

struct ProductCut {
  int side;              // side of the square tiles: 128, 64 or 32
  std::int64_t at_once;  // chunks whose results are computed concurrently; 0: one after the other
};
// `quads`: the operands can be read four floats at a time, which the largest tile requires.
ProductCut cut_product(const ProductShape& shape, bool quads);

// Returns the floats that the results of `at_once` chunks need, with or without quads.
std::size_t product_workspace_floats(const ProductShape& shape);

}  // namespace es::gpu::cuda
