#include <doctest/doctest.h>

#include <set>
#include <span>
#include <string>
#include <vector>

#include "bounds/nodes/push.hpp"
#include "driftbound/num/errors.hpp"
#include "support/approach.hpp"
#include "support/push_checks.hpp"

using namespace checks;

TEST_CASE("directions pushed through every primitive are within their roundings of the exact ones (T-117)") {
  Generator generator(781);
  std::set<std::string> seen;
  Tally all;
  for (const OpCase& one : tests::every_primitive(generator)) {
    CAPTURE(name_of(one.op));
    Tally tally;
    for (const Draws draws : {Draws::uniform, Draws::wide, Draws::sparse})
      tally += check_push(draw_case(one, draws, generator), generator);
    INFO(tally.first_violation);
    CHECK(tally.violations == 0);
    CHECK(tally.checked > 0);
    seen.insert(std::string(name_of(one.op)));
    all += tally;
  }
  CHECK(seen.size() > 40);
  CHECK_APPROACH("T-117", all.utilisation, 0.984);
}

TEST_CASE("what products lose by underflow is lost alpha times where alpha comes afterwards (T-117)") {
  const Tally all = check_push_underflow(20 * test_multiplier(), 784);
  INFO(all.first_violation);
  CHECK(all.violations == 0);
  CHECK(all.utilisation > 0x1p-60);  // 2^-1022 stands for the 2^-1074 of a product
}

TEST_CASE("directions that are 0 need not be given, and one thread pushes as two do") {
  Generator generator(782);
  for (const OpCase& one : tests::every_primitive(generator)) {
    CAPTURE(name_of(one.op));
    const TransposeCase drawn = draw_case(one, Draws::uniform, generator);
    std::vector<std::vector<double>> given;
    std::vector<std::span<const double>> directions, none(drawn.operands.size());
    for (const Tensor<double>& operand : drawn.operands)
      given.push_back(draw_numbers(3 * operand.size(), Draws::uniform, generator));
    for (const std::vector<double>& direction : given) directions.emplace_back(direction);
    const auto push = [&](const auto& which, int threads) {
      return bounds::pushed(drawn.view(), drawn.slopes, which, 3, bounds::Jacobian::as_stored, setting_of(threads))
          .values;
    };
    CHECK(push(directions, 1) == push(directions, 2));
    CHECK(push(none, 1) == std::vector<double>(3 * drawn.output.size(), 0.0));
  }
}

TEST_CASE("a composite cannot be pushed through") {
  const Tensor<double> x({2}, {1.0, 2.0});
  const Node node{"gelu", op::Gelu{}, {0}, 1};
  bounds::NodeView view;
  view.node = &node;
  view.inputs = {&x};
  view.output = &x;
  const std::vector<std::span<const double>> directions = {x.values};
  CHECK_THROWS_AS(bounds::pushed(view, {{}}, directions, 1, bounds::Jacobian::as_stored, setting_of()),
                  InvalidArgument);
}
