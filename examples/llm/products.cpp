#include "products.h"

#include <dnnl.h>

#include <array>
#include <dnnl.hpp>
#include <vector>

namespace llm {

namespace {

using Kind = dnnl::memory::data_type;

Kind kind_of(strata::Dtype dtype) { return dtype == strata::Dtype::bf16 ? Kind::bf16 : Kind::f32; }

dnnl::memory::desc describe(std::int64_t rows, std::int64_t columns, strata::Dtype dtype, bool transposed,
                            std::int64_t stride) {
  const dnnl::memory::dims strides = transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  return {{rows, columns}, kind_of(dtype), strides};
}

}  // namespace

struct Products::Backend {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<std::byte> scratch;
};

struct Products::Primitive {
  dnnl::matmul matmul;
  dnnl::memory a, b, c, scratch;
  std::array<dnnl_exec_arg_t, 4> arguments;
  std::uint64_t run_count = 0;
};

Products::Products() : backend_(std::make_unique<Backend>()) {}
Products::~Products() = default;

Products::Primitive& Products::find(const ProductShape& shape) {
  std::unique_ptr<Primitive>& found = primitives_[shape];
  if (found) return *found;
  const auto a = describe(shape.m, shape.k, shape.operand, shape.a_transposed, shape.a_stride);
  const auto b = describe(shape.k, shape.n, shape.operand, shape.b_transposed, shape.b_stride);
  const auto c = describe(shape.m, shape.n, shape.result, false, shape.c_stride);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (shape.accumulate == Accumulate::add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  const dnnl::matmul::primitive_desc description({a, b, c}, attributes, backend_->engine);
  auto made = std::make_unique<Primitive>();
  made->matmul = dnnl::matmul(description);
  made->a = dnnl::memory(a, backend_->engine, nullptr);
  made->b = dnnl::memory(b, backend_->engine, nullptr);
  made->c = dnnl::memory(c, backend_->engine, nullptr);
  made->scratch = dnnl::memory(description.scratchpad_desc(), backend_->engine, nullptr);
  made->arguments = {{{DNNL_ARG_SRC, made->a.get()},
                      {DNNL_ARG_WEIGHTS, made->b.get()},
                      {DNNL_ARG_DST, made->c.get()},
                      {DNNL_ARG_SCRATCHPAD, made->scratch.get()}}};
  const std::size_t needed = description.scratchpad_desc().get_size();
  if (needed > backend_->scratch.size()) backend_->scratch.resize(needed);
  found = std::move(made);
  return *found;
}

void Products::run(const ProductShape& shape, const void* a, const void* b, void* c) {
  if (shape.m == 0 || shape.n == 0) return;
  Primitive& primitive = find(shape);
  primitive.a.set_data_handle(const_cast<void*>(a));
  primitive.b.set_data_handle(const_cast<void*>(b));
  primitive.c.set_data_handle(c);
  primitive.scratch.set_data_handle(backend_->scratch.data());
  // The C call: the C++ one builds a vector of the arguments each time.
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive.matmul.get(), backend_->stream.get(),
                             static_cast<int>(primitive.arguments.size()), primitive.arguments.data()),
      "a matrix product failed");
  backend_->stream.wait();
  ++primitive.run_count;
}

std::size_t Products::scratch_bytes() const { return backend_->scratch.size(); }

void Products::visit_counts(const std::function<void(const ProductShape&, std::uint64_t count)>& visit) const {
  for (const auto& [shape, primitive] : primitives_) {
    if (primitive->run_count > 0) visit(shape, primitive->run_count);
  }
}

void Products::reset_counts() {
  for (auto& [shape, primitive] : primitives_) primitive->run_count = 0;
}

}  // namespace llm
