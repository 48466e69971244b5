#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/multiprecision/mpfr.hpp>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>

#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/reference/reference.hpp"
#include "reference/mpfr_range.hpp"
#include "soundness/random_networks.hpp"
#include "support/transformers.hpp"

namespace driftbound {
namespace {

using namespace soundness;
template <unsigned digits>
using Real =
    boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<digits>, boost::multiprecision::et_off>;

/// 1,200 bits, and 998: from 1,024 on mpfr_erf of MPFR 4.2.0 ends the program at numbers whose square is nearly 3.
constexpr unsigned most_digits = 361, digits_with_erf = 300;

bool has_erf(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return std::holds_alternative<op::Erf>(node.op) || std::holds_alternative<op::Gelu>(node.op);
  });
}

double multiplier() {
  const char* text = std::getenv("DRIFTBOUND_TEST_MULTIPLIER");
  return text == nullptr ? 1.0 : std::atof(text);
}

/// Double-double alone and with balls behind it, and balls of one precision or some, always far wider than what the
/// other evaluation loses: of 1,024 bits at most, with erf of the 704 that transformers of 12 blocks take.
PrecisionPolicy random_policy(Random& random, const Graph& graph) {
  const int most = has_erf(graph) ? 704 : 1024;
  PrecisionPolicy policy;
  policy.initial_bits = random.pick(std::vector<int>{0, 0, 64, 80, 200, 704});
  const int first = policy.initial_bits == 0 ? random.pick(std::vector<int>{106, 512}) : policy.initial_bits;
  policy.max_bits = random.pick(std::vector<int>{first, std::max(first, 512), most});
  return policy;
}

struct Count {
  std::int64_t balls = 0, infinite = 0, networks = 0, left_out = 0, out_of_range = 0;
  std::map<int, std::int64_t> rungs;  ///< elements by the bits that settled them

  std::string text() const {
    std::string result = fmt::format(
        "networks {}, left out {}; balls {}, of which the whole line {}, {} out of MPFR's range; by bits:", networks,
        left_out, balls, infinite, out_of_range);
    for (const auto& [bits, elements] : rungs) result += fmt::format(" {}: {}", bits, elements);
    return result;
  }
};

/// MPFR takes as many digits of pi as the exponent of a number whose sine it is to find.
bool has_endless_phase(const Graph& graph, const Reference& reference) {
  std::map<ValueId, std::size_t> maker;
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    maker[graph.nodes[node].output] = node;
    const Op& op = graph.nodes[node].op;
    const auto before = maker.find(graph.nodes[node].inputs[0]);
    if (before == maker.end() || !(std::holds_alternative<op::Sin>(op) || std::holds_alternative<op::Cos>(op)))
      continue;
    const std::vector<Ball>& balls = reference.layers[before->second].values;
    if (!std::all_of(balls.begin(), balls.end(), [](const Ball& ball) { return ball.is_finite(); })) return true;
  }
  return false;
}

template <unsigned digits>
bool contains(const Ball& ball, const Real<digits>& exact) {
  if (!ball.is_finite()) return true;
  if (!(boost::multiprecision::isfinite)(exact)) return false;
  const Real<digits> slack = abs(exact) * pow(Real<digits>(10), -static_cast<int>(digits - 20));
  return abs(exact - Real<digits>(ball.hi) - Real<digits>(ball.lo)) <= Real<digits>(ball.radius.value()) + slack;
}

template <unsigned digits>
void check_with(const Graph& graph, const Inputs& inputs, const PrecisionPolicy& policy, const std::string& description,
                Count& count) {
  const Reference reference = certified_reference(graph, inputs, policy);
  if (has_endless_phase(graph, reference)) return ++count.left_out, void();
  const MpfrRange range;  // powers of e leave the one that MPFR begins with
  mpfr_clear_flags();
  const std::vector<Tensor<Real<digits>>> exact = evaluate_as<Real<digits>>(graph, inputs);
  const bool leaves_range = mpfr_underflow_p() != 0 || mpfr_overflow_p() != 0;
  ++count.networks;
  for (const auto& [bits, elements] : reference.rungs) count.rungs[bits] += elements;
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    const std::vector<Ball>& balls = reference.layers[node].values;
    REQUIRE(balls.size() == exact[node].values.size());
    for (std::size_t i = 0; i < balls.size(); ++i) {
      ++count.balls;
      if (!balls[i].is_finite()) ++count.infinite;
      if (contains<digits>(balls[i], exact[node].values[i])) continue;
      const bool is_number = (boost::multiprecision::isfinite)(exact[node].values[i]);
      if (leaves_range && !is_number) {
        ++count.out_of_range;
        continue;
      }
      FAIL_CHECK(fmt::format("layer '{}', element {}: {:a} + {:a} within {:a} does not hold {}; {} to {} bits\n{}",
                             graph.nodes[node].name, i, balls[i].hi, balls[i].lo, balls[i].radius.value(),
                             exact[node].values[i].str(60), policy.initial_bits, policy.max_bits, description));
      return;
    }
  }
}

void check(const Graph& graph, const Inputs& inputs, const PrecisionPolicy& policy, const std::string& description,
           Count& count) {
  if (has_erf(graph)) return check_with<digits_with_erf>(graph, inputs, policy, description, count);
  check_with<most_digits>(graph, inputs, policy, description, count);
}

void check_case(const Case& the_case, std::int64_t samples, const PrecisionPolicy& policy, Count& count) {
  const BatchLayout layout = batch_layout(the_case.graph);
  const Inputs inputs = slice(the_case.graph, layout, the_case.inputs, 0, layout.batched ? samples : 1);
  check(the_case.graph, inputs, policy, describe(the_case), count);
}

/// Two layers and what stands between: rows of up to 4,097 numbers, the fewer outputs the longer they are.
class WideNetwork {
public:
  WideNetwork(Random& random, Family family) : random_(random), family_(family) {}

  Graph build() {
    const std::int64_t inputs = extent(4097);
    ValueId x = graph_.add_input("x", ElementType::f32, {{-1, "batch"}, {inputs, ""}});
    const std::int64_t width = extent(products / inputs);
    x = between(layer(x, inputs, width));
    graph_.outputs = {layer(x, width, extent(std::min<std::int64_t>(100, products / width)))};
    graph_.name = fmt::format("wide {}", family_name(family_));
    return std::move(graph_);
  }

private:
  static constexpr std::int64_t products = 50'000;

  std::int64_t extent(std::int64_t most) {
    return std::llround(std::exp2(
        random_.uniform(std::min(5.0, std::log2(static_cast<double>(most))), std::log2(static_cast<double>(most)))));
  }
  ValueId constant(const Shape& shape, std::size_t axis) {
    return graph_.add_constant(
        fmt::format("w{}", graph_.values.size()),
        store(ElementType::f32, shape, draw_values(random_, family_, Role::weight, shape, axis)));
  }
  ValueId layer(ValueId x, std::int64_t k, std::int64_t n) {
    const bool transposed = random_.chance(0.5);
    const ValueId w = transposed ? constant({n, k}, 1) : constant({k, n}, 0);
    return graph_.add_node(fmt::format("gemm{}", graph_.nodes.size()), op::Gemm{1.0, 1.0, false, transposed},
                           {x, w, constant({n}, 0)});
  }
  ValueId between(ValueId x) {
    const Op op = random_.pick(
        std::vector<Op>{op::Relu{}, op::Relu{}, op::Tanh{}, op::Sigmoid{}, op::Softplus{}, op::Sin{}, op::Identity{}});
    return graph_.add_node("between", op, {x});
  }

  Random& random_;
  Family family_;
  Graph graph_;
};

}  // namespace

TEST_CASE("the reference's balls hold what an evaluation with 1,200 bits gives, on random networks") {
  Random seeds(20261122);
  Count count;
  while (static_cast<double>(count.balls) < 100'000 * multiplier()) {
    for (const Family family : reference_families()) {
      const Case the_case = random_case(family, seeds.bits());
      check_case(the_case, the_case.samples, random_policy(seeds, the_case.graph), count);
    }
  }

  MESSAGE(count.text());
  CHECK(count.infinite < count.balls / 5);
}

TEST_CASE("where powers of e leave MPFR's range nothing is held against balls") {
  PrecisionPolicy policy;
  policy.max_bits = 512;
  Count count;
  check_case(random_case(Family::spread, 0x1438119cba8e2c6), 8, policy, count);
  CHECK(count.out_of_range > 0);
  CHECK(count.out_of_range < count.balls / 4);
}

TEST_CASE("the reference's balls hold what an evaluation with 1,200 bits gives, in layers of up to 4,097 inputs") {
  Random seeds(20261123);
  Count count;
  while (static_cast<double>(count.balls) < 50'000 * multiplier()) {
    for (const Family family : reference_families()) {
      const Case the_case = case_of(seeds, family, WideNetwork(seeds, family).build());
      check_case(the_case, std::min<std::int64_t>(the_case.samples, 2), random_policy(seeds, the_case.graph), count);
    }
  }

  MESSAGE(count.text());
  CHECK(count.infinite < count.balls / 5);
}

TEST_CASE("the reference's balls hold what an evaluation with 300 digits gives, on transformers") {
  Random seeds(20261124);
  Count count;
  while (static_cast<double>(count.balls) < 10'000 * multiplier()) {
    const checks::TransformerSize size = {static_cast<int>(seeds.integer(1, 3)), seeds.integer(2, 5),
                                          2 * seeds.integer(2, 8), 2, seeds.chance(0.5)};
    checks::Generator generator(seeds.bits());
    checks::TransformerBuilder builder(size, generator);
    const Graph graph = builder.build();
    Inputs inputs;
    inputs.tensors.emplace_back("x", StoredTensor::from(builder.inputs()));
    PrecisionPolicy policy = random_policy(seeds, graph);
    if (seeds.chance(0.3)) policy.initial_bits = policy.max_bits = 704;
    check(graph, inputs, policy, fmt::format("{} blocks, {} tokens, width {}", size.blocks, size.tokens, size.width),
          count);
  }

  MESSAGE(count.text());
  CHECK(count.infinite < count.balls / 5);
}

}  // namespace driftbound
