// Matrix products by oneDNN's matmul primitive, made once for each shape and then only executed.
#pragma once

#include <strata/dtype.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "matrix.h"

namespace llm {

enum class Accumulate : std::uint8_t { store, add };

// How a product's operands lie in memory; also what a benchmark needs to run the same product alone.
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;  // c (m, n) = a (m, k) b (k, n)
  strata::Dtype operand = strata::Dtype::f32, result = strata::Dtype::f32;
  bool a_transposed = false, b_transposed = false;  // stored as (k, m), (n, k)
  std::int64_t a_stride = 0, b_stride = 0, c_stride = 0;
  Accumulate accumulate = Accumulate::store;

  auto operator<=>(const ProductShape&) const = default;
  double flops() const { return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

// The three products of a linear layer y = x w' with w (out, in). Element types: operands float or strata::bf16, the
// result float or the operands' type; Accumulate::add for float results only. Threading: one thread; each call returns
// when it is done. The first call of a shape makes its primitive and may allocate. Bits depend on the shapes and on the
// number of OpenMP threads.
class Products {
 public:
  Products();
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // y (rows, out) = x (rows, in) w' with w (out, in)
  template <class T, class R>
  void forward(Matrix<const T> x, Matrix<const T> w, Matrix<R> y);

  // dx (rows, in) (+)= dy (rows, out) w
  template <class T, class R>
  void input_gradient(Matrix<const T> dy, Matrix<const T> w, Matrix<R> dx, Accumulate accumulate);

  // dw (out, in) (+)= dy' (out, rows) x (rows, in)
  template <class T>
  void weight_gradient(Matrix<const T> dy, Matrix<const T> x, Matrix<float> dw, Accumulate accumulate);

  void run(const ProductShape& shape, const void* a, const void* b, void* c);

  std::size_t scratch_bytes() const;

  // How often each shape was run since the last call of reset_counts().
  void visit_counts(const std::function<void(const ProductShape&, std::uint64_t count)>& visit) const;
  void reset_counts();

 private:
  struct Primitive;
  struct Backend;
  Primitive& find(const ProductShape& shape);

  std::unique_ptr<Backend> backend_;
  std::map<ProductShape, std::unique_ptr<Primitive>> primitives_;
};

template <class T>
constexpr strata::Dtype dtype_of();
template <>
constexpr strata::Dtype dtype_of<float>() {
  return strata::Dtype::f32;
}
template <>
constexpr strata::Dtype dtype_of<strata::bf16>() {
  return strata::Dtype::bf16;
}

template <class T, class R>
void Products::forward(Matrix<const T> x, Matrix<const T> w, Matrix<R> y) {
  ProductShape shape;
  shape.m = static_cast<std::int64_t>(x.rows);
  shape.n = static_cast<std::int64_t>(w.rows);
  shape.k = static_cast<std::int64_t>(x.columns);
  shape.operand = dtype_of<T>();
  shape.result = dtype_of<R>();
  shape.b_transposed = true;
  shape.a_stride = static_cast<std::int64_t>(x.stride);
  shape.b_stride = static_cast<std::int64_t>(w.stride);
  shape.c_stride = static_cast<std::int64_t>(y.stride);
  run(shape, x.data, w.data, y.data);
}

template <class T, class R>
void Products::input_gradient(Matrix<const T> dy, Matrix<const T> w, Matrix<R> dx, Accumulate accumulate) {
  ProductShape shape;
  shape.m = static_cast<std::int64_t>(dy.rows);
  shape.n = static_cast<std::int64_t>(w.columns);
  shape.k = static_cast<std::int64_t>(dy.columns);
  shape.operand = dtype_of<T>();
  shape.result = dtype_of<R>();
  shape.a_stride = static_cast<std::int64_t>(dy.stride);
  shape.b_stride = static_cast<std::int64_t>(w.stride);
  shape.c_stride = static_cast<std::int64_t>(dx.stride);
  shape.accumulate = accumulate;
  run(shape, dy.data, w.data, dx.data);
}

template <class T>
void Products::weight_gradient(Matrix<const T> dy, Matrix<const T> x, Matrix<float> dw, Accumulate accumulate) {
  ProductShape shape;
  shape.m = static_cast<std::int64_t>(dy.columns);
  shape.n = static_cast<std::int64_t>(x.columns);
  shape.k = static_cast<std::int64_t>(x.rows);
  shape.operand = dtype_of<T>();
  shape.a_transposed = true;
  shape.a_stride = static_cast<std::int64_t>(dy.stride);
  shape.b_stride = static_cast<std::int64_t>(x.stride);
  shape.c_stride = static_cast<std::int64_t>(dw.stride);
  shape.accumulate = accumulate;
  run(shape, dy.data, x.data, dw.data);
}

}  // namespace llm
