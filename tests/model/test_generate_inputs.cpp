#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "driftbound/model/inputs.hpp"
#include "model/graphs.hpp"

using namespace driftbound;
using graphs::declared;
using graphs::message_of;

namespace {

Graph graph_of(ElementType type, const Shape& shape) {
  Graph graph;
  graph.outputs = {graph.add_node("relu", op::Relu{}, {graph.add_input("x", type, declared(shape))})};
  return graph;
}

InputGenerator generator(InputDistribution distribution, std::int64_t samples,
                         std::vector<std::pair<double, double>> domain, std::uint64_t seed = 1) {
  return {distribution, samples, seed, std::move(domain)};
}

std::vector<double> values_of(const Graph& graph, const InputGenerator& g) {
  return generate_inputs(graph, g).tensors.at(0).second.to_double().values;
}

/// The published generators, as their authors write them.
struct SplitMix64 {
  std::uint64_t x;
  std::uint64_t next() {
    std::uint64_t z = (x += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
};
struct Xoshiro256StarStar {
  std::uint64_t s[4];
  static std::uint64_t rotl(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  std::uint64_t next() {
    const std::uint64_t result = rotl(s[1] * 5, 7) * 9;
    const std::uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
  }
};
Xoshiro256StarStar seeded(std::uint64_t seed) {
  SplitMix64 filler{seed};
  Xoshiro256StarStar bits{};
  for (std::uint64_t& word : bits.s) word = filler.next();
  return bits;
}
double unit(Xoshiro256StarStar& bits) {
  return std::ldexp(static_cast<double>(bits.next() >> 11), -53);
}

const Graph doubles = graph_of(ElementType::f64, {-1, 1});

}  // namespace

TEST_CASE("the reference generators give their published numbers") {
  SplitMix64 filler{1234567};
  CHECK(filler.next() == 6457827717110365317u);
  CHECK(filler.next() == 3203168211198807973u);
  Xoshiro256StarStar bits{{1, 2, 3, 4}};
  CHECK(bits.next() == 11520);
  CHECK(bits.next() == 0);
  CHECK(bits.next() == 1509978240);
  CHECK(bits.next() == 1215971899390074240);
}

TEST_CASE("uniform data are the upper 53 bits of xoshiro256**") {
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    Xoshiro256StarStar bits = seeded(seed);
    for (const double x : values_of(doubles, generator(InputDistribution::uniform, 100, {{0.0, 1.0}}, seed))) {
      CHECK(x == unit(bits));
    }
  }
}

TEST_CASE("the same seed gives the same bits on every machine") {
  const auto single = graph_of(ElementType::f32, {-1, 2});
  CHECK(values_of(single, generator(InputDistribution::uniform, 2, {{-1.0, 1.0}})) ==
        std::vector<double>{0x1.9f957cp-2, 0x1.4ed566p-5, 0x1.2f8976p-3, -0x1.bd1e38p-3});
  CHECK(values_of(doubles, generator(InputDistribution::normal, 4, {{-1.0, 1.0}})) ==
        std::vector<double>{0x1.e267c87ac62ebp+0, 0x1.4d55c9633557cp+0, 0x1.c0d732ae4b3ddp-2, -0x1.5088df52fd8fep-1});
}

TEST_CASE("other seeds give other data, and more samples continue them") {
  const auto few = values_of(doubles, generator(InputDistribution::normal, 10, {{-1.0, 1.0}}, 7));
  const auto many = values_of(doubles, generator(InputDistribution::normal, 20, {{-1.0, 1.0}}, 7));
  CHECK(few == std::vector<double>(many.begin(), many.begin() + 10));
  CHECK(few != values_of(doubles, generator(InputDistribution::normal, 10, {{-1.0, 1.0}}, 8)));
}

TEST_CASE("uniform data stay in the range of their coordinate, the last range repeating") {
  const auto graph = graph_of(ElementType::f32, {-1, 3});
  const auto values = values_of(graph, generator(InputDistribution::uniform, 2000, {{-1.0, 1.0}, {5.0, 6.0}}));
  double least[3] = {9, 9, 9};
  double most[3] = {-9, -9, -9};
  for (std::size_t i = 0; i < values.size(); ++i) {
    least[i % 3] = std::min(least[i % 3], values[i]);
    most[i % 3] = std::max(most[i % 3], values[i]);
  }
  CHECK(least[0] >= -1.0);
  CHECK(least[0] < -0.99);
  CHECK(most[0] > 0.99);
  CHECK(most[0] <= 1.0);
  for (const int axis : {1, 2}) {
    CHECK(least[axis] >= 5.0);
    CHECK(least[axis] < 5.01);
    CHECK(most[axis] > 5.99);
    CHECK(most[axis] <= 6.0);
  }
  const auto points = values_of(graph, generator(InputDistribution::uniform, 5, {{0.25, 0.25}}));
  CHECK(points == std::vector<double>(15, 0.25));
}

TEST_CASE("normal data are Marsaglia's polar method to rounding") {
  Xoshiro256StarStar bits = seeded(1);
  for (const double x : values_of(doubles, generator(InputDistribution::normal, 20000, {{-1.0, 1.0}}))) {
    double u = 0.0;
    double s = 0.0;
    do {
      u = 2.0 * unit(bits) - 1.0;
      const double v = 2.0 * unit(bits) - 1.0;
      s = u * u + v * v;
    } while (s >= 1.0 || s == 0.0);
    const auto point = static_cast<long double>(s);
    const long double exact = static_cast<long double>(u) * std::sqrt(-2.0L * std::log(point) / point);
    REQUIRE(std::fabs(static_cast<long double>(x) - exact) <= 1e-15L * std::fabs(exact));
  }
}

TEST_CASE("normal data have the moments and quantiles of a normal distribution") {
  const int n = 200000;
  const auto values = values_of(doubles, generator(InputDistribution::normal, n, {{2.0, 6.0}}));
  double sum = 0.0;
  double squares = 0.0;
  double fourth = 0.0;
  int inside = 0;
  for (const double x : values) {
    const double z = (x - 4.0) / 2.0;
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
    if (std::fabs(z) < 1.0) ++inside;
  }
  CHECK(std::fabs(sum / n) < 5.0 / std::sqrt(n));
  CHECK(std::fabs(squares / n - 1.0) < 5.0 * std::sqrt(2.0 / n));
  CHECK(std::fabs(fourth / n - 3.0) < 5.0 * std::sqrt(96.0 / n));
  CHECK(std::fabs(static_cast<double>(inside) / n - std::erf(std::sqrt(0.5))) < 5.0 * 0.466 / std::sqrt(n));
}

TEST_CASE("values are rounded to the input's type") {
  const auto generated = [](ElementType type) {
    const Inputs inputs =
        generate_inputs(graph_of(type, {-1, 1}), generator(InputDistribution::uniform, 500, {{-3.0, 3.0}}));
    CHECK(inputs.tensors.at(0).second.type() == type);
    return inputs.tensors.at(0).second.to_double().values;
  };
  const std::vector<double> exact = generated(ElementType::f64);
  const std::pair<ElementType, int> types[] = {{ElementType::f32, 24}, {ElementType::f16, 11}, {ElementType::bf16, 8}};
  for (const auto& [type, precision] : types) {
    const std::vector<double> rounded = generated(type);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double ulp = std::ldexp(1.0, std::ilogb(exact[i]) - precision + 1);
      REQUIRE(rounded[i] == std::nearbyint(exact[i] / ulp) * ulp);
    }
  }
  const auto tiny =
      values_of(graph_of(ElementType::f16, {-1, 1}), generator(InputDistribution::segment, 5, {{0.0, 0x1p-22}}));
  CHECK(tiny == std::vector<double>{0.0, 0x1p-24, 0x1p-23, 0x3p-24, 0x1p-22});
  const auto negative =
      values_of(graph_of(ElementType::f16, {-1, 1}), generator(InputDistribution::segment, 2, {{-65504.0, -0x1p-14}}));
  CHECK(negative == std::vector<double>{-65504.0, -0x1p-14});
}

TEST_CASE("a grid is full, in row-major order and reaches the bounds") {
  const auto graph = graph_of(ElementType::f64, {-1, 2});
  const auto grid = values_of(graph, generator(InputDistribution::grid, 10, {{-1.0, 1.0}, {0.0, 4.0}}));
  CHECK(grid == std::vector<double>{-1, 0, -1, 2, -1, 4, 0, 0, 0, 2, 0, 4, 1, 0, 1, 2, 1, 4});
  CHECK(values_of(graph, generator(InputDistribution::grid, 3, {{-1.0, 1.0}, {0.0, 4.0}})) ==
        std::vector<double>{0, 2});
  const auto samples = [](std::int64_t coordinates, std::int64_t asked) {
    return values_of(graph_of(ElementType::f64, {-1, coordinates}),
                     generator(InputDistribution::grid, asked, {{0.0, 1.0}}))
               .size() /
           static_cast<std::size_t>(coordinates);
  };
  CHECK(samples(1, 1000) == 1000);
  CHECK(samples(3, 999) == 729);
  CHECK(samples(3, 1000) == 1000);
  CHECK(samples(3, 1001) == 1000);
  CHECK(samples(6, 728) == 64);
  CHECK(samples(6, 729) == 729);
  CHECK(contains(message_of<InvalidArgument>([&] { (void)samples(7, 1000); }), "grid over 7 coordinates"));
}

TEST_CASE("a segment runs evenly from corner to corner") {
  const auto graph = graph_of(ElementType::f64, {-1, 2});
  const auto points = values_of(graph, generator(InputDistribution::segment, 5, {{-1.0, 1.0}, {0.0, 4.0}}));
  CHECK(points == std::vector<double>{-1, 0, -0.5, 1, 0, 2, 0.5, 3, 1, 4});
  const auto ends = values_of(doubles, generator(InputDistribution::segment, 7, {{0.1, 0.7}}));
  CHECK(ends.front() == 0.1);
  CHECK(ends.back() == 0.7);
  CHECK(values_of(doubles, generator(InputDistribution::segment, 1, {{0.0, 1.0}})) == std::vector<double>{0.5});
}

TEST_CASE("several inputs share a sample's coordinates in turn") {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, declared({-1, 1}));
  const ValueId y = graph.add_input("y", ElementType::f64, declared({-1, 2}));
  graph.outputs = {graph.add_node("cat", op::Concat{1}, {x, y})};
  const Inputs inputs =
      generate_inputs(graph, generator(InputDistribution::grid, 9, {{0.0, 1.0}, {2.0, 3.0}, {4.0, 5.0}}));
  CHECK(inputs.at("x").shape() == Shape{8, 1});
  CHECK(inputs.at("y").shape() == Shape{8, 2});
  CHECK(inputs.at("x").to_double().values == std::vector<double>{0, 0, 0, 0, 1, 1, 1, 1});
  CHECK(inputs.at("y").to_double().values == std::vector<double>{2, 4, 2, 5, 3, 4, 3, 5, 2, 4, 2, 5, 3, 4, 3, 5});
  CHECK(sample_count(graph, batch_layout(graph), inputs) == 8);
}

TEST_CASE("generated data fit models that take one sample") {
  for (const Shape& shape : {Shape{1, 3}, Shape{2, 3}, Shape{}}) {
    const Graph graph = graph_of(ElementType::f32, shape);
    const Inputs inputs = generate_inputs(graph, generator(InputDistribution::uniform, 4, {{-1.0, 1.0}}));
    CHECK(sample_count(graph, batch_layout(graph), inputs) == 4);
    CHECK(slice(graph, batch_layout(graph), inputs, 3, 1).tensors.at(0).second.shape() == shape);
  }
}

TEST_CASE("what cannot be generated says why") {
  const auto complaint = [](const InputGenerator& g) {
    return message_of<InvalidArgument>([&] { (void)generate_inputs(doubles, g); });
  };
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(contains(complaint(generator(InputDistribution::uniform, 0, {{0, 1}})), "0 samples"));
  CHECK(contains(complaint(generator(InputDistribution::uniform, 1, {})), "0 ranges"));
  CHECK(contains(complaint(generator(InputDistribution::uniform, 1, {{0, 1}, {0, 1}})), "2 ranges"));
  CHECK(contains(complaint(generator(InputDistribution::uniform, 1, {{1, 0}})), "1:0"));
  CHECK(contains(complaint(generator(InputDistribution::uniform, 1, {{0, infinity}})), "0:inf"));
  CHECK(contains(complaint(generator(InputDistribution::uniform, 1, {{std::nan(""), 1}})), "nan:1"));
  CHECK(contains(complaint(generator(InputDistribution::uniform, 1, {{-1.7e308, 1.7e308}})), "no domain"));
  const Graph half = graph_of(ElementType::f16, {-1, 1});
  CHECK(contains(message_of<InvalidArgument>([&] {
                   (void)generate_inputs(half, generator(InputDistribution::segment, 2, {{0, 1e6}}));
                 }),
                 "fp16"));
}

TEST_CASE("integers are rows of their table, or masks of ones before zeros, the same for the same seed") {
  Graph whole;
  whole.outputs = {whole.add_node("cast", op::Cast{}, {whole.add_input("n", ElementType::i64, declared({-1, 6}))})};
  InputGenerator masks = generator(InputDistribution::uniform, 20, {{0, 1}});
  const Inputs drawn = generate_inputs(whole, masks);
  CHECK(drawn.at("n").type() == ElementType::i64);
  const Tensor<double> mask = drawn.at("n").to_double();
  REQUIRE(mask.shape == Shape{20, 6});
  for (std::size_t row = 0; row < 20; ++row) {
    CHECK(mask.values[6 * row] == 1.0);
    for (std::size_t i = 1; i < 6; ++i) CHECK(mask.values[6 * row + i] <= mask.values[6 * row + i - 1]);
  }
  masks.index_limits = {{"n", 7}};
  const Tensor<double> ids = generate_inputs(whole, masks).at("n").to_double();
  CHECK(ids.values == generate_inputs(whole, masks).at("n").to_double().values);
  CHECK(*std::min_element(ids.values.begin(), ids.values.end()) == 0.0);
  CHECK(*std::max_element(ids.values.begin(), ids.values.end()) == 6.0);
}
