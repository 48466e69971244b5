#include "bounds/local/other_orders.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>

#include "bounds/sums/operand.hpp"
#include "linalg/ordered_product.hpp"

namespace driftbound::bounds {
namespace {

using Kind = SummationOrder::Kind;

/// An order of summation of terms that are put in another order first: in reverse, from the middle on, or by lanes, of
/// which each has every lanes-th term.
struct Walked {
  enum class Start { first, last, middle } start = Start::first;
  std::int64_t lanes = 1;
  SummationOrder order;
};

constexpr Walked orders[] = {
    {Walked::Start::first, 1, {Kind::sequential, 0, false}},  {Walked::Start::first, 1, {Kind::sequential, 0, true}},
    {Walked::Start::first, 1, {Kind::pairwise, 0, false}},    {Walked::Start::first, 1, {Kind::blocked, 64, false}},
    {Walked::Start::first, 1, {Kind::split_k, 8, false}},     {Walked::Start::last, 1, {Kind::sequential, 0, false}},
    {Walked::Start::middle, 1, {Kind::sequential, 0, false}}, {Walked::Start::first, 2, {Kind::split_k, 2, false}},
    {Walked::Start::first, 8, {Kind::split_k, 8, false}},     {Walked::Start::first, 32, {Kind::split_k, 32, false}}};

std::vector<std::size_t> places_of(const Walked& walked, std::size_t n) {
  std::vector<std::size_t> places;
  const auto lanes = static_cast<std::size_t>(walked.lanes);
  for (std::size_t lane = 0; lane < lanes; ++lane)
    for (std::size_t k = lane; k < n; k += lanes) places.push_back(k);
  if (walked.start == Walked::Start::last) std::reverse(places.begin(), places.end());
  if (walked.start == Walked::Start::middle)
    std::rotate(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(n / 2), places.end());
  return places;
}

template <class Real>
double sum_of(const Factors& factors, const Walked& walked) {
  if (factors.left.empty()) return 0.0;
  const std::vector<std::size_t> places = places_of(walked, factors.left.size());
  std::vector<Real> left, right;
  for (const std::size_t k : places) {
    left.push_back(static_cast<Real>(factors.left[k]));
    right.push_back(static_cast<Real>(factors.right[k]));
  }
  const auto n = static_cast<std::int64_t>(places.size());
  const ProductPlan plan{1, 1, 1, n, {0}, {0}, n, 1, 1, 1};
  PackedMatrices<Real> packed;
  pack_missing<Real>(plan, std::span<const Real>(right), packed);
  return static_cast<double>(multiply<Real>(plan, std::span<const Real>(left), packed, walked.order, 1).front());
}

}  // namespace

std::span<const SummationOrder> tried_orders() {
  static constexpr SummationOrder all[] = {{Kind::sequential, 0, false},
                                           {Kind::sequential, 0, true},
                                           {Kind::pairwise, 0, false},
                                           {Kind::blocked, 64, false},
                                           {Kind::split_k, 8, false}};
  return all;
}

OtherOrders::OtherOrders(const Product& product, const NodeView& view, const Machine& machine)
    : product_(product),
      machine_(machine),
      a_(round_operand(view.input(0), *machine.input, machine).used),
      b_(round_operand(view.input(1), *machine.input, machine).used) {
  if (!product.has_addend || product.beta == 0.0) return;
  addend_ = round_operand(view.input(2), *machine.accumulator, machine).used;
  index_.emplace(view.input(2).shape, view.output->shape);
}

Factors OtherOrders::factors_of(std::size_t i) const {
  const ProductPlan& plan = product_.plan;
  const auto at = static_cast<std::int64_t>(i);
  const std::int64_t column = at % plan.n, row = at / plan.n % plan.m, batch = at / plan.n / plan.m;
  Factors factors;
  const auto add = [&](double left, double right) {
    if (left == 0.0 || right == 0.0) return;
    factors.left.push_back(left);
    factors.right.push_back(right);
  };
  for (std::int64_t k = 0; k < plan.k; ++k)
    add(product_.alpha * a_[plan.a_index(batch, row, k)], b_[plan.b_index(batch, k, column)]);
  if (index_) add(product_.beta, addend_[(*index_)(i)]);
  return factors;
}

std::size_t OtherOrders::count() {
  return std::size(orders);
}

double OtherOrders::sum(const Factors& factors, std::size_t order) const {
  const bool is_single = machine_.accumulator->id == FormatId::fp32;
  return is_single ? sum_of<float>(factors, orders[order]) : sum_of<double>(factors, orders[order]);
}

}  // namespace driftbound::bounds
