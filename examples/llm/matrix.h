// Views of row-major matrices and of vectors. They own nothing.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

namespace llm {

template <class T>
struct Matrix {
  T* data = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t stride = 0;  // elements from one row to the next

  Matrix() = default;
  Matrix(T* at, std::size_t row_count, std::size_t column_count) : Matrix(at, row_count, column_count, column_count) {}
  Matrix(T* at, std::size_t row_count, std::size_t column_count, std::size_t row_stride)
      : data(at), rows(row_count), columns(column_count), stride(row_stride) {}

  operator Matrix<const T>() const requires(!std::is_const_v<T>) { return {data, rows, columns, stride}; }

  T* row(std::size_t index) const { return data + index * stride; }
  Matrix row_range(std::size_t first, std::size_t count) const { return {row(first), count, columns, stride}; }
  Matrix column_range(std::size_t first, std::size_t count) const { return {data + first, rows, count, stride}; }
};

}  // namespace llm
