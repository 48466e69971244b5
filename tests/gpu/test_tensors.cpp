#include <doctest/doctest.h>

#include <algorithm>

#include "driftbound/evaluate/evaluator.hpp"
#include "gpu/device.hpp"
#include "linalg/summation.hpp"

namespace {

using namespace gpu_tests;
using namespace driftbound;

/// A view of a tensor whose axes lie in any order, with gaps, some of them perhaps broadcast.
struct RandomView {
  driftbound_view view;
  std::size_t elements;  ///< of the memory that it needs

  RandomView(const std::vector<std::int64_t>& extents, bool may_broadcast, std::mt19937_64& random)
      : view(whole(extents)) {
    std::vector<std::size_t> axes(extents.size());
    for (std::size_t d = 0; d < axes.size(); ++d) axes[d] = d;
    std::shuffle(axes.begin(), axes.end(), random);
    std::int64_t stride = 1;
    for (const std::size_t axis : axes) {
      const bool broadcast = may_broadcast && random() % 4 == 0;
      view.stride[axis] = broadcast ? 0 : stride;
      if (!broadcast) stride *= view.extent[axis] + static_cast<std::int64_t>(random() % 3);
    }
    view.offset = static_cast<std::int64_t>(random() % 5);
    elements = static_cast<std::size_t>(view.offset + stride);
  }
};

std::vector<std::int64_t> random_extents(std::mt19937_64& random) {
  std::vector<std::int64_t> extents(random() % 5);
  for (std::int64_t& extent : extents) extent = 1 + static_cast<std::int64_t>(random() % 6);
  return extents;
}

template <class Element>
void check_moves(std::mt19937_64& random) {
  Device& device = Device::opened();
  for (int trial = 0; trial < 60; ++trial) {
    const std::vector<std::int64_t> extents = random_extents(random);
    const RandomView source(extents, true, random), target(extents, false, random);
    std::vector<Element> from(source.elements), to(target.elements);
    for (Element& x : from) x = static_cast<Element>(random());
    for (Element& x : to) x = static_cast<Element>(random());
    const Buffer<Element> from_memory(from), to_memory(to);
    device.check(device.module().move(device.handle(), sizeof(Element), from_memory.memory(), &source.view,
                                      to_memory.memory(), &target.view));
    const std::vector<std::size_t> read = positions(source.view), written = positions(target.view);
    for (std::size_t i = 0; i < read.size(); ++i) to[written[i]] = from[read[i]];
    CHECK(difference(to_memory.values(), to) == "");
  }
}

TEST_CASE("elements move between any two views, and nothing else changes") {
  std::mt19937_64 random(41);
  check_moves<std::uint16_t>(random);
  check_moves<std::uint32_t>(random);
  check_moves<std::uint64_t>(random);
}

template <class Real>
Real by_definition(driftbound_binary function, Real a, Real b) {
  if (function == DRIFTBOUND_ADD) return a + b;
  if (function == DRIFTBOUND_SUB) return a - b;
  if (function == DRIFTBOUND_GREATER) return a > b ? Real(1) : Real(0);
  if (function == DRIFTBOUND_GREATER_OR_EQUAL) return a >= b ? Real(1) : Real(0);
  if (function == DRIFTBOUND_EQUAL) return a == b ? Real(1) : Real(0);
  return function == DRIFTBOUND_MUL ? a * b : a / b;
}

template <class Real>
void check_binary(std::mt19937_64& random) {
  Device& device = Device::opened();
  for (const driftbound_binary function : {DRIFTBOUND_ADD, DRIFTBOUND_SUB, DRIFTBOUND_MUL, DRIFTBOUND_DIV,
                                           DRIFTBOUND_GREATER, DRIFTBOUND_GREATER_OR_EQUAL, DRIFTBOUND_EQUAL}) {
    for (int trial = 0; trial < 30; ++trial) {
      const std::vector<std::int64_t> extents = random_extents(random);
      const RandomView left(extents, true, random), right(extents, true, random);
      const std::vector<Real> a = awkward<Real>(left.elements, random);
      std::vector<Real> b = awkward<Real>(right.elements, random);
      for (std::size_t i = 0; i < std::min(a.size(), b.size()); i += 2) b[i] = a[i];
      const std::vector<std::size_t> in_a = positions(left.view), in_b = positions(right.view);
      std::vector<Real> expected(in_a.size());
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = by_definition(function, a[in_a[i]], b[in_b[i]]);
      const Buffer<Real> a_memory(a), b_memory(b), result(expected.size());
      device.check(device.module().binary(device.handle(), real_of<Real>, function, a_memory.memory(), &left.view,
                                          b_memory.memory(), &right.view, result.memory()));
      CAPTURE(function);
      CHECK(difference(result.values(), expected) == "");
    }
  }
}

TEST_CASE("arithmetic of two broadcast tensors is the CPU's") {
  std::mt19937_64 random(42);
  check_binary<float>(random);
  check_binary<double>(random);
}

template <class Real>
void check_choose(std::mt19937_64& random) {
  Device& device = Device::opened();
  for (int trial = 0; trial < 60; ++trial) {
    const std::vector<std::int64_t> extents = random_extents(random);
    const RandomView condition(extents, true, random), left(extents, true, random), right(extents, true, random);
    std::vector<Real> c = awkward<Real>(condition.elements, random);
    for (std::size_t i = 0; i < c.size(); i += 2) c[i] = Real(random() % 2);
    const std::vector<Real> a = awkward<Real>(left.elements, random), b = awkward<Real>(right.elements, random);
    const std::vector<std::size_t> in_c = positions(condition.view), in_a = positions(left.view),
                                   in_b = positions(right.view);
    std::vector<Real> expected(in_c.size());
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = c[in_c[i]] > Real(0.5) ? a[in_a[i]] : b[in_b[i]];
    const Buffer<Real> c_memory(c), a_memory(a), b_memory(b), result(expected.size());
    device.check(device.module().choose(device.handle(), real_of<Real>, c_memory.memory(), &condition.view,
                                        a_memory.memory(), &left.view, b_memory.memory(), &right.view,
                                        result.memory()));
    CHECK(difference(result.values(), expected) == "");
  }
}

TEST_CASE("a choice of two broadcast tensors is the CPU's") {
  std::mt19937_64 random(43);
  check_choose<float>(random);
  check_choose<double>(random);
}

TEST_CASE("subnormal floats are neither flushed nor taken for zero") {
  Device& device = Device::opened();
  const driftbound_view view = whole({4});
  const Buffer<float> a(std::vector<float>{0x1p-149f, 0x1p-126f, 0x1.8p-140f, -0x1p-130f});
  const Buffer<float> b(std::vector<float>{0x1p-149f, -0x1.fffffcp-127f, 0x1p-148f, 0x1.8p-130f});
  const Buffer<float> sum(4);
  device.check(device.module().binary(device.handle(), DRIFTBOUND_F32, DRIFTBOUND_ADD, a.memory(), &view, b.memory(),
                                      &view, sum.memory()));
  CHECK(difference(sum.values(), {0x1p-148f, 0x1p-149f, 0x1.81p-140f, 0x1p-131f}) == "");
}

std::vector<float> cpu_softmax(const std::vector<float>& x, const Shape& shape, const SummationOrder& order) {
  Graph graph;
  std::vector<DeclaredDimension> declared;
  for (const std::int64_t extent : shape) declared.push_back({extent, ""});
  op::Softmax softmax;
  softmax.axis = 1;
  graph.outputs = {graph.add_node("y", softmax, {graph.add_input("x", ElementType::f32, declared)})};
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(Tensor<float>(shape, x)));
  const Trace trace = cpu_evaluator(cpu_arithmetic("fp32", order)).run(graph, inputs);
  std::vector<float> y;
  for (const double value : trace.layers.at(0).output.to_double().values) y.push_back(static_cast<float>(value));
  return y;
}

TEST_CASE("Softmax has the bits of the CPU evaluator in every order of its sum") {
  Device& device = Device::opened();
  std::mt19937_64 random(43);
  for (const std::string name : {"sequential", "pairwise", "blocked:8", "split-k:3"}) {
    const SummationOrder order = parse_summation_order(name);
    for (const std::int64_t length : {1, 2, 7, 64, 129}) {
      for (const std::int64_t inner : {1, 3}) {
        const Shape shape = {5, length, inner};
        std::vector<float> x = awkward<float>(static_cast<std::size_t>(5 * length * inner), random, 5);
        if (length == 64) x[10] = INFINITY;
        const Buffer<float> operand(x), result(x.size());
        device.check(device.module().softmax(device.handle(), DRIFTBOUND_F32, operand.memory(), result.memory(), 5,
                                             length, inner, static_cast<std::int64_t>(chain_length(order, length))));
        CAPTURE(name);
        CAPTURE(length);
        CHECK(difference(result.values(), cpu_softmax(x, shape, order)) == "");
      }
    }
  }
}

}  // namespace
