#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "bounds/nodes/product_node.hpp"
#include "driftbound/num/errors.hpp"
#include "support/approach.hpp"
#include "support/special_numbers.hpp"
#include "support/theorems.hpp"
#include "support/transpose_checks.hpp"

using namespace checks;

namespace {

template <std::size_t... Index>
std::size_t count_primitives(std::index_sequence<Index...>) {
  return (std::size_t{Composite<std::variant_alternative_t<Index, OpAlternatives>> ? 0 : 1} + ...);
}
const std::size_t primitive_ops = count_primitives(std::make_index_sequence<std::variant_size_v<OpAlternatives>>());

std::vector<bounds::Transposed> shares_of(const TransposeCase& one, int threads = 1) {
  return transposed(one.view(), one.slopes, one.d, one.all_wanted(), setting_of(threads));
}

/// Largest part of its defect that any element of some cases reaches.
double closest(const std::vector<OpCase>& cases, int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  for (const OpCase& one : cases) {
    for (int i = 0; i < repetitions; ++i) tally += check_transpose(draw_case(one, Draws::uniform, generator));
  }
  CHECK(tally.violations == 0);
  return tally.utilisation;
}

/// Derivatives of sum_i d_i y_i by the operands of a product, term by term.
std::vector<std::vector<Real>> exact_product_shares(const TransposeCase& one) {
  const bounds::Product product = bounds::product_of(one.view()).value();
  const ProductPlan& plan = product.plan;
  std::vector<std::vector<Real>> exact;
  for (const Tensor<double>& operand : one.operands) exact.emplace_back(operand.size());
  auto d = one.d.begin();
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    for (std::int64_t i = 0; i < plan.m; ++i) {
      for (std::int64_t j = 0; j < plan.n; ++j, ++d) {
        const Real factor = Real(product.alpha) * Real(*d);
        for (std::int64_t k = 0; k < plan.k; ++k) {
          const std::size_t a = plan.a_index(batch, i, k), b = plan.b_index(batch, k, j);
          exact[0][a] += factor * Real(one.operands[1].values[b]);
          exact[1][b] += factor * Real(one.operands[0].values[a]);
        }
      }
    }
  }
  return exact;
}

Tensor<double> zeros(const Shape& shape) {
  return Tensor<double>(shape);
}

}  // namespace

TEST_CASE("transposed products of every primitive are within their defects of the exact ones (T-64)") {
  Generator generator(641);
  std::set<std::size_t> seen;
  for (const OpCase& op : tests::every_primitive(generator)) {
    seen.insert(op.op.index());
    CAPTURE(name_of(op.op));
    for (int draws = 0; draws < static_cast<int>(Draws::last); ++draws) {
      CAPTURE(draws);
      Tally tally;
      for (int i = 0; i < 4 * test_multiplier(); ++i)
        tally += check_transpose(draw_case(op, static_cast<Draws>(draws), generator));
      CHECK(tally.checked > 0);
      CHECK(tally.violations == 0);
      CHECK(tally.first_violation == "");
    }
  }
  CHECK(seen.size() == primitive_ops);
}

TEST_CASE("transposed products are adjoint: <J x, d> = <x, J^T d> within the defects") {
  Generator generator(642);
  for (const OpCase& op : tests::every_primitive(generator)) {
    CAPTURE(name_of(op.op));
    const TransposeCase one = draw_case(op, Draws::uniform, generator);
    const std::vector<bounds::Transposed> shares = shares_of(one);
    for (std::size_t slot = 0; slot < shares.size(); ++slot) {
      const Tensor<double> x{one.operands[slot].shape,
                             draw_numbers(one.operands[slot].size(), Draws::uniform, generator)};
      const Real forward = inner(one.d, jacobian_times(one, slot, reals(x)).values);
      Real backward, allowed;
      for (std::size_t i = 0; i < x.size(); ++i) {
        backward += Real(x.values[i]) * Real(shares[slot].values[i]);
        allowed += abs(Real(x.values[i])) * Real(defect_at(shares[slot], i));
      }
      CHECK(abs(forward - backward) <= allowed);
    }
  }
}

TEST_CASE("defects are approached" * doctest::test_suite("campaign")) {
  const auto some = [](Shape shape) { return zeros(std::move(shape)); };
  SUBCASE("elementwise: one rounded product") {
    CHECK_APPROACH("T-64", closest({{op::Tanh{}, {some({5})}}}, 200, 643), 0.944);
  }
  SUBCASE("a product of one term") {
    CHECK_APPROACH("T-64", closest({{op::MatMul{}, {some({4, 3}), some({3, 1})}}}, 100, 644), 0.98);
  }
  SUBCASE("products of two terms") {
    CHECK_APPROACH("T-64", closest({{op::MatMul{}, {some({4, 3}), some({3, 2})}}}, 200, 645), 0.727);
  }
  SUBCASE("products of one term in two batches that share an operand") {
    CHECK_APPROACH("T-64", closest({{op::MatMul{}, {some({1, 1}), some({2, 1, 1})}}}, 400, 661), 0.961);
  }
  SUBCASE("products of 17 terms") {
    CHECK_APPROACH("T-64", closest({{op::Gemm{}, {some({4, 3}), some({3, 17})}}}, 100, 646), 0.471);
  }
  SUBCASE("two copies of a broadcast operand") {
    CHECK_APPROACH("T-64", closest({{op::Add{}, {some({2, 3}), some({3})}}}, 200, 647), 0.969);
    CHECK_APPROACH("T-64", closest({{op::Mul{}, {some({2, 3}), some({3})}}}, 200, 648), 0.974);
  }
  SUBCASE("elements that a selection repeats") {
    CHECK_APPROACH("T-64", closest({{op::Expand{{3, 4}}, {some({1, 4})}}}, 200, 649), 0.799);
  }
  SUBCASE("softmax") {
    CHECK_APPROACH("T-64", closest({{op::Softmax{}, {some({4, 3})}}}, 300, 650), 0.651);
  }
  SUBCASE("scaled products") {
    CHECK_APPROACH("T-64",
                   closest({{op::Gemm{0.3, -1.7, true, true}, {some({3, 4}), some({1, 3}), some({4, 1})}}}, 100, 651),
                   0.932);
  }
}

TEST_CASE("what moves elements, changes signs or has slopes 0 and 1 has no defect") {
  Generator generator(652);
  const auto defects = [&](const Op& op, const std::vector<Shape>& shapes) {
    OpCase one{op, {}};
    for (const Shape& shape : shapes) one.operands.push_back(zeros(shape));
    TransposeCase drawn = draw_case(one, Draws::uniform, generator);
    for (std::vector<double>& slopes : drawn.slopes) {
      for (double& slope : slopes) slope = static_cast<double>(generator() % 3) - 1.0;
    }
    std::size_t count = 0;
    for (const bounds::Transposed& share : shares_of(drawn)) count += share.defect.size();
    return count;
  };
  CHECK(defects(op::Relu{}, {{5}}) == 0);
  CHECK(defects(op::Neg{}, {{5}}) == 0);
  CHECK(defects(op::Cast{ElementType::f16}, {{5}}) == 0);
  CHECK(defects(op::Add{}, {{5}, {5}}) == 0);
  CHECK(defects(op::Max{}, {{5}, {5}}) == 0);
  CHECK(defects(op::Sub{}, {{5}, {5}}) == 0);
  CHECK(defects(op::Concat{0}, {{5}, {2}}) == 0);
  CHECK(defects(op::Transpose{{1, 0}}, {{5, 2}}) == 0);
  CHECK(defects(op::ReduceSum{{1}, false}, {{5, 2}}) == 0);
  CHECK(defects(op::ReduceMax{{1}, false}, {{5, 2}}) == 0);
  CHECK(defects(op::Slice{{0}, {2}, {0}, {1}}, {{5, 2}}) == 0);
}

TEST_CASE("rows of zeros and elements that nothing reads have values and defects 0 exactly") {
  Generator generator(653);
  TransposeCase one = draw_case({op::MatMul{}, {zeros({2, 3}), zeros({3, 4})}}, Draws::uniform, generator);
  for (std::size_t j = 0; j < 4; ++j) one.d[j] = 0.0;  // of row 0
  const std::vector<bounds::Transposed> shares = shares_of(one);
  for (std::size_t k = 0; k < 3; ++k) {
    CHECK(shares[0].values[k] == 0.0);
    CHECK(shares[0].defect[k] == 0.0);
    CHECK(shares[0].defect[3 + k] > 0.0);
  }
  const TransposeCase gather = draw_case({op::Gather{0, {3}, {0, 2, 2}}, {zeros({3, 2})}}, Draws::uniform, generator);
  const bounds::Transposed gathered = shares_of(gather).front();
  CHECK(gathered.values[2] == 0.0);
  CHECK(gathered.values[5] == gather.d[3] + gather.d[5]);
  CHECK(gathered.defect[0] == 0.0);
  CHECK(gathered.defect[2] == 0.0);
  CHECK(gathered.defect[4] > 0.0);
}

TEST_CASE("transposed products of larger matrices, with batches that share a matrix") {
  const auto random = [](Shape shape) { return zeros(std::move(shape)); };
  Generator generator(654);
  const std::vector<OpCase> cases = {
      {op::Gemm{}, {random({9, 40}), random({40, 33})}},
      {op::Gemm{-0.7, 1.0, true, false}, {random({40, 9}), random({40, 17})}},
      {op::MatMul{}, {random({3, 5, 20}), random({20, 17})}},
      {op::MatMul{}, {random({6, 20}), random({4, 20, 9})}},
      {op::MatMul{}, {random({2, 1, 5, 8}), random({3, 8, 4})}},
  };
  for (const OpCase& op : cases) {
    for (const Draws draws : {Draws::uniform, Draws::wide, Draws::tiny}) {
      const TransposeCase one = draw_case(op, draws, generator);
      const std::vector<bounds::Transposed> shares = shares_of(one);
      const std::vector<std::vector<Real>> exact = exact_product_shares(one);
      Tally tally;
      for (std::size_t slot = 0; slot < exact.size(); ++slot) {
        REQUIRE(shares[slot].values.size() == exact[slot].size());
        for (std::size_t i = 0; i < exact[slot].size(); ++i)
          tally.add(shares[slot].values[i], exact[slot][i], defect_at(shares[slot], i));
      }
      CHECK(tally.checked > 0);
      CHECK(tally.violations == 0);
    }
  }
}

TEST_CASE("the same bits for every number of threads") {
  Generator generator(655);
  const TransposeCase one = draw_case({op::MatMul{}, {zeros({128, 96}), zeros({96, 128})}}, Draws::uniform, generator);
  const std::vector<bounds::Transposed> alone = shares_of(one, 1), together = shares_of(one, 3);
  for (std::size_t slot = 0; slot < 2; ++slot) {
    CHECK(alone[slot].values == together[slot].values);
    CHECK(alone[slot].defect == together[slot].defect);
  }
}

TEST_CASE("the defect is infinite wherever d that is not finite goes, and wherever a value is not finite") {
  Generator generator(656);
  for (const OpCase& op : tests::every_primitive(generator)) {
    CAPTURE(name_of(op.op));
    for (const double bad : {infinity, -infinity, not_a_number}) {
      TransposeCase one = draw_case(op, Draws::uniform, generator);
      if (one.d.empty()) continue;
      const std::size_t at = generator() % one.d.size();
      one.d[at] = bad;
      const std::vector<bounds::Transposed> shares = shares_of(one);
      for (std::size_t slot = 0; slot < shares.size(); ++slot) {
        RealTensor unit(one.operands[slot].shape);
        for (std::size_t i = 0; i < unit.size(); ++i) {
          unit.values[i] = Real(1.0);
          const bool is_reached = Real() < abs(jacobian_times(one, slot, unit).values[at]);
          unit.values[i] = Real(0.0);
          if (is_reached) CHECK_FALSE(std::isfinite(shares[slot].values[i]));
          if (!std::isfinite(shares[slot].values[i])) CHECK(defect_at(shares[slot], i) == infinity);
          CHECK_FALSE(std::isnan(defect_at(shares[slot], i)));
        }
      }
    }
  }
}

TEST_CASE("slopes, constants and stored softmaxes that are not finite make defects infinite") {
  Generator generator(657);
  const auto is_infinite = [](const TransposeCase& one, std::size_t slot, std::size_t i) {
    return defect_at(shares_of(one)[slot], i) == infinity;
  };
  for (const double bad : {infinity, not_a_number}) {
    TransposeCase tanh = draw_case({op::Tanh{}, {zeros({3})}}, Draws::uniform, generator);
    tanh.slopes[0][1] = bad;
    tanh.d[1] = 0.0;
    CHECK(is_infinite(tanh, 0, 1));
    CHECK_FALSE(is_infinite(tanh, 0, 0));
    TransposeCase product = draw_case({op::MatMul{}, {zeros({2, 3}), zeros({3, 4})}}, Draws::uniform, generator);
    product.operands[1].values[4] = bad;
    product.d.assign(8, 0.0);
    CHECK(is_infinite(product, 0, 1));
    CHECK_FALSE(is_infinite(product, 0, 0));
    TransposeCase softmax = draw_case({op::Softmax{}, {zeros({2, 3})}}, Draws::uniform, generator);
    softmax.output.values[1] = bad;
    CHECK(is_infinite(softmax, 0, 0));
    CHECK_FALSE(is_infinite(softmax, 0, 3));
  }
  TransposeCase overflow = draw_case({op::MatMul{}, {zeros({1, 1}), zeros({1, 2})}}, Draws::uniform, generator);
  overflow.operands[1].values = {0x1p600, -0x1p600};
  overflow.d = {0x1p600, 0x1p600};
  CHECK(is_infinite(overflow, 0, 0));
}

TEST_CASE("numbers whose squares overflow or vanish have defects of their own size") {
  Generator generator(658);
  for (const double scale : {0x1p700, 0x1p-700}) {
    TransposeCase one = draw_case({op::MatMul{}, {zeros({2, 3}), zeros({3, 4})}}, Draws::uniform, generator);
    for (double& x : one.operands[1].values) x = (2.0 + x) * scale;
    for (double& x : one.d) x = 2.0 + x;
    const bounds::Transposed share = shares_of(one).front();
    for (std::size_t i = 0; i < share.values.size(); ++i) CHECK(share.defect[i] <= 0x1p-49 * std::abs(share.values[i]));
  }
}

TEST_CASE("operands that are not wanted come back empty") {
  Generator generator(659);
  for (const OpCase& op : tests::every_primitive(generator)) {
    CAPTURE(name_of(op.op));
    const TransposeCase one = draw_case(op, Draws::uniform, generator);
    const std::vector<bounds::Transposed> all = shares_of(one);
    for (std::size_t only = 0; only < all.size(); ++only) {
      std::vector<bool> wanted(all.size(), false);
      wanted[only] = true;
      const auto shares = transposed(one.view(), one.slopes, one.d, wanted, setting_of());
      REQUIRE(shares.size() == all.size());
      for (std::size_t slot = 0; slot < all.size(); ++slot) {
        CHECK(shares[slot].values == (slot == only ? all[slot].values : std::vector<double>()));
        CHECK(shares[slot].defect == (slot == only ? all[slot].defect : std::vector<double>()));
      }
    }
  }
}

TEST_CASE("what does not fit a node is refused") {
  Generator generator(660);
  TransposeCase one = draw_case({op::Mul{}, {zeros({2, 3}), zeros({3})}}, Draws::uniform, generator);
  const auto call = [&](std::size_t operands) {
    return transposed(one.view(), one.slopes, one.d, std::vector<bool>(operands, true), setting_of());
  };
  CHECK_THROWS_WITH_AS(call(1), "adjoint of node 'node': 6 numbers for 6 output elements, 1 flags for 2 operands",
                       InvalidArgument);
  one.slopes[1].pop_back();
  CHECK_THROWS_WITH_AS(call(2), "adjoint of node 'node' (Mul): 5 slopes for operand 1, which needs 6", InvalidArgument);
  one.slopes.clear();
  CHECK_THROWS_AS(call(2), InvalidArgument);
  one.d.pop_back();
  CHECK_THROWS_AS(call(2), InvalidArgument);
  TransposeCase composite = draw_case({op::Relu{}, {zeros({3})}}, Draws::uniform, generator);
  composite.node.op = op::Softsign{};
  CHECK_THROWS_WITH_AS(shares_of(composite),
                       "adjoint of node 'node': Softsign is a composite; give the nodes that it means",
                       InvalidArgument);
}
