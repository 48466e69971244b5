#include "reference/near_recorded.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "driftbound/model/layout.hpp"
#include "reference/pair_product_node.hpp"

namespace driftbound {

namespace {

/// Of a row's difference from the recorded one: behind so many the product cuts off 2^-80 of a row that is off by float32
/// roundings.
constexpr int bits_of_difference = 58;
/// Rows that are off by more of their norm go as they are, each by itself.
constexpr double near = 0x1p-10;

/// The sum of alpha A B and beta C of which A alone varies, with nothing scaled.
std::optional<ProductPlan> plan_of(const Op& op, std::span<const PairInput> inputs) {
  const Shape &a = inputs[0].tensor->shape, &b = inputs[1].tensor->shape;
  if (inputs[1].kept == nullptr || (inputs.size() > 2 && inputs[2].kept == nullptr)) return std::nullopt;
  if (const auto* gemm = std::get_if<op::Gemm>(&op); gemm != nullptr && gemm->alpha == 1.0 && !gemm->transpose_a)
    return plan_product(*gemm, a, b);
  if (const auto* matmul = std::get_if<op::MatMul>(&op)) return plan_product(*matmul, a, b);
  return std::nullopt;
}

double squares_of(const double* x, std::size_t n) {
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

/// Rows that are far from the recorded ones, or of which the exact product there is not known.
std::vector<std::size_t> others_of(const PairTensor& x, const PairTensor& difference, const PairTensor& product) {
  std::vector<std::size_t> others;
  const std::size_t size = x.part_size();
  for (std::size_t part = 0; part < x.parts(); ++part) {
    const double off = squares_of(difference.hi.data() + part * size, size);
    const bool is_near = off <= near * near * squares_of(x.hi.data() + part * size, size);
    if (!is_near || !std::isfinite(difference.norms[part]) || !std::isfinite(product.norms[part]))
      others.push_back(part);
  }
  return others;
}

void copy_part(const PairTensor& source, std::size_t from, PairTensor& target, std::size_t to) {
  const std::size_t size = source.part_size();
  std::copy_n(source.hi.data() + from * size, size, target.hi.data() + to * size);
  std::copy_n(source.lo.data() + from * size, size, target.lo.data() + to * size);
  std::copy_n(source.radius.data() + from * size, size, target.radius.data() + to * size);
  target.norms[to] = source.norms[from];
}

/// The product of some rows as they are, into those of the result.
void multiply_alone(const Op& op, std::span<const PairInput> inputs, const std::vector<std::size_t>& rows,
                    PairTensor& result) {
  const PairTensor& x = *inputs[0].tensor;
  PairTensor some(with_rows(x.shape, rows.size()), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) copy_part(x, rows[i], some, i);
  std::vector<PairInput> operands(inputs.begin(), inputs.end());
  operands[0].tensor = &some;
  const PairTensor product = apply(op, operands, with_rows(result.shape, rows.size()), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) copy_part(product, i, result, rows[i]);
}

}  // namespace

std::optional<PairTensor> product_near_recorded(const Op& op, std::span<const PairInput> inputs,
                                                const RecordedProduct& recorded, std::span<const std::size_t> rows,
                                                const Shape& output) {
  const std::optional<ProductPlan> plan = plan_of(op, inputs);
  if (!plan || !goes_by_residues(*plan, inputs[1])) return std::nullopt;
  const PairTensor& x = *inputs[0].tensor;
  if (x.parts() != rows.size()) return std::nullopt;
  const PairTensor there(*recorded.operand, rows), result_there(*recorded.result, rows);
  const PairTensor difference = apply(op::Sub{}, std::vector<PairInput>{{&x}, {&there}}, x.shape, rows.size());
  const std::vector<std::size_t> others = others_of(x, difference, result_there);
  if (others.size() == rows.size()) return std::nullopt;
  PairTensor change(output, rows.size());
  multiply_matrices(*plan, {&difference, nullptr, bits_of_difference}, inputs[1], change);
  PairTensor result = apply(op::Add{}, std::vector<PairInput>{{&result_there}, {&change}}, output, rows.size());
  if (!others.empty()) multiply_alone(op, inputs, others, result);
  return result;
}

}  // namespace driftbound
