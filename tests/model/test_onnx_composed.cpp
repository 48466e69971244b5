#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/num/errors.hpp"
#include "model/onnx_case.hpp"

// Ops of ONNX that are several of ours: their values, by ONNX's definitions, and what is refused.

using namespace driftbound;
using namespace driftbound::test;
using A = OnnxAttribute;

// ---- moves ----------------------------------------------------------------------------------------------------------

TEST_CASE("DepthToSpace makes blocks of channels, in one of two orders, and SpaceToDepth undoes the first") {
  const auto expected = [](bool is_crd) {
    const Shape in = {2, 8, 2, 3}, out = {2, 2, 4, 6};
    Doubles result(static_cast<std::size_t>(elements_of(out)));
    for_indices(out, [&](const Integers& at, std::size_t flat) {
      const std::int64_t block = at[2] % 2 * 2 + at[3] % 2;
      const std::int64_t channel = is_crd ? at[1] * 4 + block : block * 2 + at[1];
      result[flat] = static_cast<double>(flat_index(in, {at[0], channel, at[2] / 2, at[3] / 2}) + 1);
    });
    return result;
  };
  const A two = A::of_int("blocksize", 2);
  CHECK(Case(13, {2, 8, 2, 3}).node("DepthToSpace", {"x"}, {two}).values() == expected(false));
  CHECK(Case(13, {2, 8, 2, 3}).node("DepthToSpace", {"x"}, {two, A::of_string("mode", "CRD")}).values() ==
        expected(true));
  Case both(13, {2, 3, 4, 6});
  both.model.node("SpaceToDepth", {"x"}, "deep", {two});
  const Doubles same = both.node("DepthToSpace", {"deep"}, {two}).values();
  CHECK(same == Doubles(both.x.values.begin(), both.x.values.end()));
  const Tensor<double> deep = Case(13, {1, 1, 2, 2}).node("SpaceToDepth", {"x"}, {two}).value();
  CHECK(deep.shape == Shape{1, 4, 1, 1});
  CHECK(holds(Case(13, {2, 6, 2, 3}).node("DepthToSpace", {"x"}, {two}).mismatch(), "6 channels in blocks of 2"));
  CHECK(holds(Case(13, {2, 6, 2, 3}).node("SpaceToDepth", {"x"}, {two}).mismatch(), "2 by 3 pixels"));
  CHECK(holds(Case(13, {2, 8, 2, 3}).node("DepthToSpace", {"x"}, {two, A::of_string("mode", "RCD")}).error(), "'RCD'"));
}

TEST_CASE("an attribute of a later opset is refused") {
  CHECK(holds(Case(10, {1, 4, 2, 2})
                  .node("DepthToSpace", {"x"}, {A::of_int("blocksize", 2), A::of_string("mode", "CRD")})
                  .error(),
              "attribute 'mode' is there since opset 11 only"));
  CHECK(holds(Case(10, {1, 2})
                  .with("s", {2}, Floats{1, 2})
                  .node("Resize", {"x", "s"}, {A::of_string("nearest_mode", "ceil")})
                  .error(),
              "since opset 11 only"));
  CHECK(holds(
      Case(13, {1, 2}).with("s", {1}, Floats{2}).node("Resize", {"x", "", "s"}, {A::of_ints("axes", {1})}).error(),
      "since opset 18 only"));
}

TEST_CASE("Trilu keeps one side of a diagonal") {
  const auto triangle = [](const std::vector<A>& attributes, std::int64_t k) {
    return Case(14, {2, 3}).with("k", {}, Integers{k}).node("Trilu", {"x", "k"}, attributes).values();
  };
  const A lower = A::of_int("upper", 0);
  CHECK(Case(14, {2, 3}).node("Trilu", {"x"}).values() == Doubles{1, 2, 3, 0, 5, 6});
  CHECK(triangle({}, 1) == Doubles{0, 2, 3, 0, 0, 6});
  CHECK(triangle({}, -1) == Doubles{1, 2, 3, 4, 5, 6});
  CHECK(triangle({lower}, 0) == Doubles{1, 0, 0, 4, 5, 0});
  CHECK(triangle({lower}, 1) == Doubles{1, 2, 0, 4, 5, 6});
  CHECK(triangle({lower}, -7) == Doubles(6, 0.0));
  Case computed(14, {2, 3});
  computed.model.input("k", {}, onnx_int64);
  CHECK(holds(computed.node("Trilu", {"x", "k"}).refusal(), "its k is computed, not a constant"));
}

TEST_CASE("GatherElements takes an element for every index, along one axis") {
  std::mt19937 random(5);
  for (const std::int64_t axis : {0, 1, 2, -1}) {
    for (const bool alike : {false, true}) {
      CAPTURE(axis);
      const Shape data = {2, 3, 4}, picks = {2, 2, 3};
      const std::size_t along = static_cast<std::size_t>(axis < 0 ? 2 : axis);
      Integers indices(12);
      for (std::int64_t& each : indices) {
        const std::int64_t extent = data[along];
        each = std::uniform_int_distribution<std::int64_t>(-extent, extent - 1)(random);
      }
      if (alike && axis != 0) std::copy(indices.begin(), indices.begin() + 6, indices.begin() + 6);
      Doubles expected(12);
      for_indices(picks, [&](const Integers& at, std::size_t flat) {
        Integers from = at;
        from[along] = indices[flat] < 0 ? indices[flat] + data[along] : indices[flat];
        expected[flat] = static_cast<double>(flat_index(data, from) + 1);
      });
      Case one(13, data);
      one.with("i", picks, indices).node("GatherElements", {"x", "i"}, {A::of_int("axis", axis)});
      CHECK(one.values() == expected);
      CHECK(one.value().shape == picks);
    }
  }
  CHECK(holds(Case(13, {2, 3}).with("i", {1, 1}, Integers{3}).node("GatherElements", {"x", "i"}).mismatch(),
              "index 3 is outside an extent of 2"));
  CHECK(holds(Case(13, {2, 3}).with("i", {1, 4}, Integers{0, 0, 0, 0}).node("GatherElements", {"x", "i"}).mismatch(),
              "indices [1, 4] for data [2, 3]"));
}

TEST_CASE("GatherElements along a later axis by the same indices for every sample keeps samples apart") {
  Case one(13, {1, 3});
  one.with("i", {1, 2}, Integers{2, 0}).node("GatherElements", {"x", "i"}, {A::of_int("axis", 1)});
  CHECK(batch_layout(loaded(one.model)).batched);
  CHECK(one.values() == Doubles{3, 1});
}

TEST_CASE("GatherND takes slices by tuples of indices, within batches where asked") {
  const auto gathered = [](const Shape& data, const Shape& shape, const Integers& indices, std::int64_t batches) {
    return Case(13, data)
        .with("i", shape, indices)
        .node("GatherND", {"x", "i"}, {A::of_int("batch_dims", batches)})
        .value();
  };
  CHECK(gathered({2, 2}, {2, 2}, {0, 0, 1, -1}, 0).values == Doubles{1, 4});
  CHECK(gathered({2, 2}, {2, 1}, {1, 0}, 0).values == Doubles{3, 4, 1, 2});
  CHECK(gathered({2, 2, 2}, {2, 2}, {0, 1, 1, 0}, 0).values == Doubles{3, 4, 5, 6});
  CHECK(gathered({2, 2, 2}, {2, 1, 2}, {0, 1, 1, 0}, 0).shape == Shape{2, 1, 2});
  CHECK(gathered({2, 2, 2}, {2, 1}, {1, 0}, 1).values == Doubles{3, 4, 5, 6});
  CHECK(gathered({2, 3, 2}, {2, 3, 1}, {1, 1, 0, 0, 1, 0}, 2).values == Doubles{2, 4, 5, 7, 10, 11});
  CHECK(gathered({3}, {1}, {2}, 0).values == Doubles{3});
  CHECK(gathered({3}, {1}, {2}, 0).shape.empty());
  CHECK(holds(Case(13, {2, 2}).with("i", {1, 3}, Integers{0, 0, 0}).node("GatherND", {"x", "i"}).mismatch(),
              "indices [1, 3] for data [2, 2]"));
}

namespace {

using Combine = double (*)(double, double);

double add(double a, double b) {
  return a + b;
}
double multiply(double a, double b) {
  return a * b;
}
double largest(double a, double b) {
  return std::max(a, b);
}
double smallest(double a, double b) {
  return std::min(a, b);
}
double update(double, double b) {
  return b;
}

struct Combination {
  const char* name;
  Combine combine;
};
constexpr Combination combinations[] = {
    {"none", update}, {"add", add}, {"mul", multiply}, {"max", largest}, {"min", smallest}};

}  // namespace

TEST_CASE("ScatterElements replaces elements by index, or combines them with all their updates") {
  std::mt19937 random(6);
  for (const Combination& reduction : combinations) {
    for (const std::int64_t axis : {0, 1, -1}) {
      CAPTURE(reduction.name);
      CAPTURE(axis);
      const Shape data = {3, 4}, picks = {3, 3};
      const std::size_t along = axis == 0 ? 0 : 1;
      Integers indices(9);
      if (std::string(reduction.name) == "none") {
        indices = axis == 0 ? Integers{0, 2, 1, 1, 0, 2, 2, 1, 0} : Integers{0, 3, 1, 3, -3, 0, 2, 1, 0};
      } else {
        for (std::int64_t& each : indices) each = std::uniform_int_distribution<std::int64_t>(-2, 1)(random);
      }
      Tensor<float> updates = counted(picks, 0.0f);
      for (std::size_t i = 0; i < 9; ++i) updates.values[i] = static_cast<float>((i * 7) % 9) - 3.5f;
      Doubles expected(12);
      std::iota(expected.begin(), expected.end(), 1.0);
      for_indices(picks, [&](const Integers& at, std::size_t flat) {
        Integers to = at;
        to[along] = indices[flat] < 0 ? indices[flat] + data[along] : indices[flat];
        double& element = expected[flat_index(data, to)];
        element = reduction.combine(element, static_cast<double>(updates.values[flat]));
      });
      Case one(18, data);
      one.with("i", picks, indices).also("u", updates);
      one.node("ScatterElements", {"x", "i", "u"},
               {A::of_int("axis", axis), A::of_string("reduction", reduction.name)});
      CHECK(one.values() == expected);
      CHECK(one.value().shape == data);
    }
  }
}

TEST_CASE("ScatterND replaces slices by tuples of indices, or combines them with all their updates") {
  for (const Combination& reduction : combinations) {
    CAPTURE(reduction.name);
    const bool is_plain = std::string(reduction.name) == "none";
    const Integers indices = is_plain ? Integers{1, 0, 0, -1} : Integers{1, 0, 1, 0};  // [2, 2]
    const Tensor<float> updates({2, 3}, {0.5f, 20, -1, 4, 2, 0});
    Doubles expected(12);
    std::iota(expected.begin(), expected.end(), 1.0);
    for (std::size_t tuple = 0; tuple < 2; ++tuple) {
      const std::int64_t first = indices[2 * tuple], second = indices[2 * tuple + 1] & 1;
      for (std::size_t i = 0; i < 3; ++i) {
        double& element = expected[static_cast<std::size_t>((first * 2 + second) * 3) + i];
        element = reduction.combine(element, static_cast<double>(updates.values[tuple * 3 + i]));
      }
    }
    Case one(18, {2, 2, 3});
    one.with("i", {2, 2}, indices).also("u", updates);
    one.node("ScatterND", {"x", "i", "u"}, {A::of_string("reduction", reduction.name)});
    CHECK(one.values() == expected);
  }
}

TEST_CASE("a Scatter of the same elements of every sample keeps samples apart; of all elements it is its updates") {
  Case one(18, {1, 3});
  one.with("i", {1, 1, 2}, Integers{0, 1}).also("u", Tensor<float>({1, 1}, {9})).node("ScatterND", {"x", "i", "u"});
  CHECK(batch_layout(loaded(one.model)).batched);
  CHECK(one.values() == Doubles{1, 9, 3});
  Case all(18, {2, 1});
  all.with("i", {2, 1}, Integers{1, 0})
      .also("u", Tensor<float>({2, 1}, {8, 9}))
      .node("ScatterElements", {"x", "i", "u"});
  CHECK(all.values() == Doubles{9, 8});
}

TEST_CASE("what of a Scatter is refused, and why") {
  const auto scatter = [](std::int64_t opset, const Integers& indices, const std::vector<A>& attributes) {
    Case one(opset, {3, 1});
    one.with("i", {2, 1}, indices).also("u", Tensor<float>({2, 1}, {8, 9}));
    one.node("ScatterElements", {"x", "i", "u"}, attributes);
    return one;
  };
  CHECK(holds(scatter(16, {1, 1}, {}).refusal(), "name an element twice"));
  CHECK(holds(scatter(16, {1, 2}, {A::of_string("reduction", "max")}).error(), "since opset 18 only"));
  CHECK(holds(scatter(13, {1, 2}, {A::of_string("reduction", "add")}).error(), "since opset 16 only"));
  CHECK(holds(scatter(18, {1, 3}, {}).mismatch(), "index 3 is outside an extent of 3"));
  CHECK(holds(scatter(18, {1, 2}, {A::of_string("reduction", "mean")}).error(), "'mean'"));
  Case computed(18, {3, 1});
  computed.model.input("i", {2, 1}, onnx_int64);
  computed.also("u", Tensor<float>({2, 1}, {8, 9})).node("ScatterElements", {"x", "i", "u"});
  CHECK(holds(computed.refusal(), "its indices are computed"));
  Case open(18, {3, 1});
  open.model.input("z", {"N", 1});
  open.with("i", {2, 1}, Integers{0, 1}).also("u", Tensor<float>({2, 1}, {8, 9}));
  CHECK(holds(open.node("ScatterElements", {"z", "i", "u"}).refusal(), "shape of its input is not known"));
}

TEST_CASE("OneHot has its values where constant indices say; negative ones count from the end since opset 11") {
  const auto hot = [](std::int64_t opset, const std::vector<A>& attributes) {
    return Case(opset, {2})
        .with("i", {3}, Integers{1, -1, 7})
        .with("d", {1}, Integers{3})
        .node("OneHot", {"i", "d", "x"}, attributes)
        .value();
  };
  CHECK(hot(11, {}).values == Doubles{1, 2, 1, 1, 1, 2, 1, 1, 1});
  CHECK(hot(9, {}).values == Doubles{1, 2, 1, 1, 1, 1, 1, 1, 1});
  CHECK(hot(11, {A::of_int("axis", 0)}).values == Doubles{1, 1, 1, 2, 1, 1, 1, 2, 1});
  CHECK(hot(11, {}).shape == Shape{3, 3});
}

TEST_CASE("Compress keeps what a constant condition says") {
  const auto kept = [](const std::vector<A>& attributes) {
    return Case(11, {3, 2})
        .with(boolean_list("c", std::string("\0\1\1", 3)))
        .node("Compress", {"x", "c"}, attributes)
        .values();
  };
  CHECK(kept({A::of_int("axis", 0)}) == Doubles{3, 4, 5, 6});
  CHECK(kept({A::of_int("axis", -2)}) == Doubles{3, 4, 5, 6});
  CHECK(kept({}) == Doubles{2, 3});
  Case computed(11, {3, 2});
  computed.model.input("c", {3}, onnx_bool);
  CHECK(holds(computed.node("Compress", {"x", "c"}).refusal(), "its condition is computed"));
}

// ---- products and sums along axes -----------------------------------------------------------------------------------

TEST_CASE("ReduceProd multiplies along axes; the product of nothing is 1 and the sum of nothing 0") {
  const auto product = [](const Shape& shape, const std::vector<A>& attributes) {
    return Case(13, shape).node("ReduceProd", {"x"}, attributes).value();
  };
  const A rows = A::of_ints("axes", {0}), last = A::of_ints("axes", {-1}), drop = A::of_int("keepdims", 0);
  CHECK(product({2, 3}, {rows}).values == Doubles{4, 10, 18});
  CHECK(product({2, 3}, {rows}).shape == Shape{1, 3});
  CHECK(product({2, 3}, {last, drop}).values == Doubles{6, 120});
  CHECK(product({2, 3}, {last, drop}).shape == Shape{2});
  CHECK(product({7}, {}).values == Doubles{5040});
  CHECK(product({2, 3}, {drop}).values == Doubles{720});
  CHECK(product({2, 3}, {drop}).shape.empty());
  CHECK(product({1, 3}, {rows}).values == Doubles{1, 2, 3});
  const auto empty = [](const std::string& op) {
    Case one(13, {2});
    one.with("nothing", {0, 2}, Floats{}).with("axis", {1}, Integers{0});
    const bool takes_input = op == "ReduceSum";
    one.model.node(op, takes_input ? std::vector<std::string>{"nothing", "axis"} : std::vector<std::string>{"nothing"},
                   "r", takes_input ? std::vector<A>{} : std::vector<A>{A::of_ints("axes", {0})});
    return one.node("Add", {"x", "r"}).values();
  };
  CHECK(empty("ReduceProd") == Doubles{2, 3});
  for (const std::string op : {"ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"})
    CHECK(empty(op) == Doubles{1, 2});
  CHECK(Case(18, {2, 3}).with("a", {1}, Integers{1}).node("ReduceProd", {"x", "a"}).values() == Doubles{6, 120});
  CHECK(holds(Case(13, {2, 3}).with("a", {1}, Integers{1}).node("ReduceProd", {"x", "a"}).error(), "since opset 18"));
}

TEST_CASE("CumSum and CumProd run along an axis, either way, with or without the element itself") {
  const auto run = [](const std::string& op, std::int64_t axis, bool is_exclusive, bool is_reversed) {
    Case one(26, {2, 3});
    one.with("a", {}, Integers{axis});
    one.node(op, {"x", "a"}, {A::of_int("exclusive", is_exclusive ? 1 : 0), A::of_int("reverse", is_reversed ? 1 : 0)});
    CHECK(one.value().shape == Shape{2, 3});
    return one.values();
  };
  CHECK(run("CumSum", 1, false, false) == Doubles{1, 3, 6, 4, 9, 15});
  CHECK(run("CumSum", -1, true, false) == Doubles{0, 1, 3, 0, 4, 9});
  CHECK(run("CumSum", 1, false, true) == Doubles{6, 5, 3, 15, 11, 6});
  CHECK(run("CumSum", 1, true, true) == Doubles{5, 3, 0, 11, 6, 0});
  CHECK(run("CumSum", 0, false, false) == Doubles{1, 2, 3, 5, 7, 9});
  CHECK(run("CumProd", 1, false, false) == Doubles{1, 2, 6, 4, 20, 120});
  CHECK(run("CumProd", 1, true, false) == Doubles{1, 1, 2, 1, 4, 20});
  CHECK(run("CumProd", 1, true, true) == Doubles{6, 3, 1, 30, 6, 1});
  Case single(14, {2, 1});
  single.with("a", {}, Integers{1}).node("CumSum", {"x", "a"}, {A::of_int("exclusive", 1)});
  CHECK(single.values() == Doubles{0, 0});
  CHECK(holds(Case(14, {513}).with("a", {}, Integers{0}).node("CumSum", {"x", "a"}).refusal(), "1 to 512"));
  Case computed(14, {3});
  computed.model.input("a", {}, onnx_int64);
  CHECK(holds(computed.node("CumSum", {"x", "a"}).refusal(), "its axis is computed"));
}

// ---- functions ------------------------------------------------------------------------------------------------------

TEST_CASE("Clip has computed limits that are single numbers; the upper one is the last") {
  const auto clipped = [](const std::vector<std::string>& inputs) {
    Case one(13, {4});
    one.also("low", Tensor<float>({}, {2})).also("high", Tensor<float>({1}, {3}));
    one.with("two", {}, Floats{2}).with("three", {}, Floats{3}).with("one", {}, Floats{1});
    one.model.node("Identity", {"low"}, "l").node("Identity", {"high"}, "h");
    return one.node("Clip", inputs).value();
  };
  const Doubles within = {2, 2, 3, 3};
  for (const std::string low : {"l", "two"}) {
    for (const std::string high : {"h", "three"}) CHECK(clipped({"x", low, high}).values == within);
  }
  CHECK(clipped({"x", "", "h"}).values == Doubles{1, 2, 3, 3});
  CHECK(clipped({"x", "l"}).values == Doubles{2, 2, 3, 4});
  CHECK(clipped({"x", "l", "one"}).values == Doubles(4, 1.0));
  CHECK(clipped({"x", "three", "l"}).values == Doubles(4, 2.0));
  CHECK(clipped({"x", "h", "l"}).values == Doubles(4, 2.0));
  CHECK(clipped({"x", "l", "h"}).shape == Shape{4});
  CHECK(holds(Case(13, {4}).node("Clip", {"x", "x"}).refusal(), "not known to be single numbers"));
}

TEST_CASE("Shrink, Mod of floats, Hardmax, CastLike") {
  Case shrink(9, {5});
  shrink.x.values = {-3, -1, 0, 1, 3};
  shrink.node("Shrink", {"x"}, {A::of_float("lambd", 1.0f), A::of_float("bias", 0.5f)});
  CHECK(shrink.values() == Doubles{-2.5, 0, 0, 0, 2.5});
  Case hard(9, {3});
  hard.x.values = {-2, 0.25f, 2};
  CHECK(hard.node("Shrink", {"x"}).values() == Doubles{-2, 0, 2});

  Case modulo(13, {4});
  modulo.x.values = {-4.25f, 5.5f, 4.25f, -8};
  modulo.also("b", Tensor<float>({4}, {2, -2, 1.5f, 3}));
  CHECK(modulo.node("Mod", {"x", "b"}, {A::of_int("fmod", 1)}).values() == Doubles{-0.25, 1.5, 1.25, -2});
  Case whole(13, {4});
  CHECK(holds(whole.node("Mod", {"x", "x"}).refusal(), "fmod = 0"));

  const auto maxima = [](std::int64_t opset, const std::vector<A>& attributes) {
    Case one(opset, {2, 2, 2});
    one.x.values = {1, 5, 5, 5, -1, -2, -1, -3};
    return one.node("Hardmax", {"x"}, attributes).values();
  };
  CHECK(maxima(13, {}) == Doubles{0, 1, 1, 0, 1, 0, 1, 0});
  CHECK(maxima(13, {A::of_int("axis", 1)}) == Doubles{0, 1, 1, 0, 1, 1, 0, 0});
  CHECK(maxima(12, {}) == Doubles{0, 1, 0, 0, 1, 0, 0, 0});
  CHECK(maxima(12, {A::of_int("axis", 2)}) == Doubles{0, 1, 1, 0, 1, 0, 1, 0});

  Case cast(15, {2});
  cast.x.values = {1, 1.0f + 0x1p-20f};
  cast.model.initializer("like", {1}, std::vector<double>{0});
  const Graph wider = loaded(cast.node("CastLike", {"x", "like"}).model);
  CHECK(wider.value(wider.outputs[0]).type == ElementType::f64);
  Case truth(15, {2});
  truth.x.values = {0, -2};
  truth.with(boolean_list("like", std::string(1, '\0')));
  CHECK(truth.node("CastLike", {"x", "like"}).values() == Doubles{0, 1});
}

TEST_CASE("Asin and Acos, up to the ends of their domain") {
  const auto values = [](const std::string& op) {
    Case one(7, {7});
    one.x.values = {-1, -0.75f, -1e-6f, 0, 0.3f, 0.99999f, 1};
    one.node(op, {"x"});
    Doubles expected;
    for (const float x : one.x.values)
      expected.push_back(op == "Asin" ? std::asin(static_cast<double>(x)) : std::acos(static_cast<double>(x)));
    check_near(one.values(), expected, 1e-14);
  };
  values("Asin");
  values("Acos");
}

TEST_CASE("LRN divides by a power of the squares around a channel") {
  for (const std::int64_t size : {1, 2, 3, 4, 9}) {
    CAPTURE(size);
    const Shape shape = {2, 5, 2, 2};
    Case one(13, shape);
    one.node("LRN", {"x"}, {A::of_int("size", size), A::of_float("alpha", 0.25f), A::of_float("bias", 2.0f)});
    Doubles expected(40);
    for_indices(shape, [&](const Integers& at, std::size_t flat) {
      double sum = 0.0;
      for (std::int64_t c = at[1] - (size - 1) / 2; c <= at[1] + size / 2; ++c) {
        if (c < 0 || c >= 5) continue;
        const double x = static_cast<double>(flat_index(shape, {at[0], c, at[2], at[3]}) + 1);
        sum += x * x;
      }
      const double x = static_cast<double>(flat + 1);
      expected[flat] = x / std::pow(2.0 + 0.25 / static_cast<double>(size) * sum, 0.75);
    });
    check_near(one.values(), expected);
  }
}

TEST_CASE("LpPool is a norm of windows, GlobalLpPool of a channel") {
  const auto pooled = [](std::int64_t p) {
    Case one(18, {1, 1, 2, 3});
    return one
        .node("LpPool", {"x"},
              {A::of_int("p", p), A::of_ints("kernel_shape", {2, 2}), A::of_ints("pads", {0, 1, 0, 0})})
        .value();
  };
  CHECK(pooled(1).values == Doubles{5, 12, 16});
  CHECK(pooled(1).shape == Shape{1, 1, 1, 3});
  check_near(pooled(2).values, {std::sqrt(17.0), std::sqrt(1.0 + 4 + 16 + 25), std::sqrt(4.0 + 9 + 25 + 36)});
  check_near(Case(2, {1, 2, 2}).node("GlobalLpPool", {"x"}).values(), {std::sqrt(5.0), 5.0});
  Case cubes(18, {1, 1, 2, 3});
  cubes.node("LpPool", {"x"}, {A::of_int("p", 3), A::of_ints("kernel_shape", {2, 2})});
  CHECK(holds(cubes.refusal(), "p = 1 and 2"));
}

TEST_CASE("losses of constant classes, some ignored, weighted or not") {
  const Shape shape = {2, 3, 2};
  const std::vector<std::int64_t> classes = {0, 2, 1, 2};
  const Doubles class_weights = {0.5, 2, 4};
  for (const bool is_weighted : {false, true}) {
    for (const bool ignores : {false, true}) {
      for (const std::string reduction : {"none", "sum", "mean"}) {
        for (const bool takes_logarithm : {false, true}) {
          CAPTURE(reduction);
          Case one(13, shape);
          for (float& x : one.x.values) x /= 8;
          one.with("t", {2, 2}, classes).with("w", {3}, Floats{0.5f, 2, 4});
          std::vector<A> attributes = {A::of_string("reduction", reduction)};
          if (ignores) attributes.push_back(A::of_int("ignore_index", 2));
          one.node(takes_logarithm ? "SoftmaxCrossEntropyLoss" : "NegativeLogLikelihoodLoss",
                   {"x", "t", is_weighted ? "w" : ""}, attributes);
          Doubles losses;
          double total = 0.0;
          for (std::int64_t n = 0; n < 2; ++n) {
            for (std::int64_t d = 0; d < 2; ++d) {
              const std::int64_t t = classes[static_cast<std::size_t>(n * 2 + d)];
              const auto score = [&](std::int64_t c) {
                return static_cast<double>(one.x.values[flat_index(shape, {n, c, d})]);
              };
              const double norm =
                  takes_logarithm ? std::log(std::exp(score(0)) + std::exp(score(1)) + std::exp(score(2))) : 0.0;
              const double weight = ignores && t == 2 ? 0.0
                                    : is_weighted     ? class_weights[static_cast<std::size_t>(t)]
                                                      : 1.0;
              losses.push_back(-weight * (score(t) - norm));
              total += weight;
            }
          }
          const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
          const Doubles expected = reduction == "none" ? losses : Doubles{reduction == "sum" ? sum : sum / total};
          check_near(one.values(), expected);
        }
      }
    }
  }
  Case masked(13, {2, 3});  // -1 is no class
  masked.with("t", {2}, Integers{-1, 2}).node("NegativeLogLikelihoodLoss", {"x", "t"}, {A::of_int("ignore_index", -1)});
  CHECK(masked.values() == Doubles{-6});
  Case wrong(13, shape);
  wrong.with("t", {2, 2}, Integers{0, 1, 2, 3}).node("NegativeLogLikelihoodLoss", {"x", "t"});
  CHECK(holds(wrong.mismatch(), "class 3 of 3"));
}

// ---- Resize ---------------------------------------------------------------------------------------------------------

namespace {

/// ONNX's formula for one element along an axis.
double interpolated(const Doubles& x, std::int64_t output, double scale, std::int64_t i, const std::string& mode,
                    const std::string& place, double a, bool excludes) {
  const auto in = static_cast<double>(x.size()), out = static_cast<double>(output), at = static_cast<double>(i);
  double position = (at + 0.5) / scale - 0.5;
  if (place == "asymmetric") position = at / scale;
  if (place == "align_corners") position = output == 1 ? 0.0 : at * (in - 1.0) / (out - 1.0);
  if (place == "pytorch_half_pixel" && output == 1) position = 0.0;
  if (place == "half_pixel_symmetric") position += in / 2.0 * (1.0 - out / (scale * in));
  const double floor = std::floor(position), t = position - floor;
  Doubles weights = {1.0 - t, t};
  if (mode == "cubic") {
    const auto near = [&](double d) { return (a + 2) * d * d * d - (a + 3) * d * d + 1; };
    const auto far = [&](double d) { return a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a; };
    weights = {far(1 + t), near(t), near(1 - t), far(2 - t)};
  }
  double sum = 0.0, total = 0.0;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    const double where = floor + static_cast<double>(k) - (mode == "cubic" ? 1.0 : 0.0);
    if (excludes && (where < 0.0 || where >= in)) continue;
    sum += weights[k] * x[static_cast<std::size_t>(std::clamp(where, 0.0, in - 1.0))];
    total += weights[k];
  }
  return excludes ? sum / total : sum;
}

Case resize_case(const std::vector<A>& attributes, std::int64_t input, std::int64_t output, double scale) {
  Case one(19, {1, input, 2});
  for (float& x : one.x.values) x = x * x;
  const bool by_size = scale == 0.0;
  if (by_size) one.with("sizes", {3}, Integers{1, output, 2});
  if (!by_size) one.with("scales", {3}, Floats{1, static_cast<float>(scale), 1});
  one.node("Resize", {"x", "", by_size ? "" : "scales", by_size ? "sizes" : ""}, attributes);
  return one;
}

void check_resize(const std::string& mode, const std::string& place, std::int64_t input, std::int64_t output,
                  double scale, bool excludes, float a) {
  CAPTURE(mode);
  CAPTURE(place);
  CAPTURE(input);
  CAPTURE(output);
  CAPTURE(excludes);
  const Case one = resize_case({A::of_string("mode", mode), A::of_string("coordinate_transformation_mode", place),
                                A::of_int("exclude_outside", excludes ? 1 : 0), A::of_float("cubic_coeff_a", a)},
                               input, output, scale);
  const double ratio = scale == 0.0 ? static_cast<double>(output) / static_cast<double>(input)
                                    : static_cast<double>(static_cast<float>(scale));
  Doubles expected(static_cast<std::size_t>(output * 2));
  for (std::size_t column = 0; column < 2; ++column) {
    Doubles x;
    for (std::size_t i = 0; i < static_cast<std::size_t>(input); ++i)
      x.push_back(static_cast<double>(one.x.values[i * 2 + column]));
    for (std::int64_t i = 0; i < output; ++i)
      expected[static_cast<std::size_t>(i) * 2 + column] =
          interpolated(x, output, ratio, i, mode, place, static_cast<double>(a), excludes);
  }
  check_near(one.values(), expected, 1e-11);
}

}  // namespace

TEST_CASE("Resize interpolates at the coordinates of every mode, by sizes and by scales") {
  const std::vector<std::string> places = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                           "asymmetric"};
  for (const std::string mode : {"linear", "cubic"}) {
    for (const std::string& place : places) {
      for (const bool excludes : {false, true}) {
        for (const float a : {-0.75f, -0.5f}) {
          for (const std::int64_t output : {1, 2, 3, 4, 8, 10}) check_resize(mode, place, 5, output, 0.0, excludes, a);
          check_resize(mode, place, 5, 10, 2.0, excludes, a);
          check_resize(mode, place, 4, 10, 2.5, excludes, a);
          check_resize(mode, place, 4, 3, 0.75, excludes, a);
          if (place != "align_corners") check_resize(mode, place, 5, 13, 2.75, excludes, a);
        }
      }
    }
  }
}

TEST_CASE("a scale that is no short fraction has weights by steps of their own") {
  for (const std::string mode : {"linear", "cubic"}) {
    for (const std::string place : {"half_pixel", "asymmetric", "pytorch_half_pixel"}) {
      for (const bool excludes : {false, true}) {
        check_resize(mode, place, 5, 3, 0.6000000238418579, excludes, -0.75f);
        check_resize(mode, place, 9, 6, 0.699999988079071, excludes, -0.75f);
      }
    }
  }
  const std::vector<A> symmetric = {A::of_string("mode", "linear"),
                                    A::of_string("coordinate_transformation_mode", "half_pixel_symmetric")};
  CHECK(holds(resize_case(symmetric, 10, 6, 0.699999988079071).refusal(), "weights are not exact in float32"));
}

TEST_CASE("Resize takes the nearest neighbours that ONNX names, unless rounding decides") {
  const auto nearest = [](const std::string& place, const std::string& rounding, std::int64_t input,
                          std::int64_t output, double scale = 0.0) {
    Doubles rows;
    const Case one =
        resize_case({A::of_string("coordinate_transformation_mode", place), A::of_string("nearest_mode", rounding)},
                    input, output, scale);
    const Doubles values = one.values();
    for (std::size_t i = 0; i < values.size(); i += 2) rows.push_back((std::sqrt(values[i]) - 1) / 2);
    return rows;
  };
  CHECK(nearest("half_pixel", "round_prefer_floor", 2, 5) == Doubles{0, 0, 0, 1, 1});  // 0.5 at the middle
  CHECK(nearest("half_pixel", "round_prefer_ceil", 2, 5, 2.5) == Doubles{0, 0, 1, 1, 1});
  CHECK(nearest("asymmetric", "floor", 4, 2) == Doubles{0, 2});
  CHECK(nearest("asymmetric", "ceil", 2, 4) == Doubles{0, 1, 1, 1});
  CHECK(nearest("align_corners", "floor", 4, 7) == Doubles{0, 0, 1, 1, 2, 2, 3});
  CHECK(nearest("align_corners", "round_prefer_ceil", 3, 5) == Doubles{0, 1, 1, 2, 2});
  const auto refusal = [](const std::string& rounding, std::int64_t input, std::int64_t output) {
    return resize_case(
               {A::of_string("coordinate_transformation_mode", "asymmetric"), A::of_string("nearest_mode", rounding)},
               input, output, 0.0)
        .refusal();
  };
  CHECK(holds(refusal("floor", 6, 10), "where rounding decides"));  // 5 / (10 / 6), which is 3
  CHECK(refusal("round_prefer_floor", 6, 10).empty());
}

TEST_CASE("Resize names axes, keeps their ratio, and leaves open axes alone") {
  const auto shape_of = [](const std::vector<A>& attributes, const Integers& sizes) {
    Case one(19, {1, 4, 8});
    one.with("sizes", {static_cast<std::int64_t>(sizes.size())}, sizes);
    std::vector<A> all = {A::of_string("mode", "linear")};
    all.insert(all.end(), attributes.begin(), attributes.end());
    return one.node("Resize", {"x", "", "", "sizes"}, all).value().shape;
  };
  const A last = A::of_ints("axes", {-1, 1});
  CHECK(shape_of({last}, {2, 5}) == Shape{1, 5, 2});
  CHECK(shape_of({last, A::of_string("keep_aspect_ratio_policy", "not_larger")}, {7, 6}) == Shape{1, 4, 7});
  CHECK(shape_of({last, A::of_string("keep_aspect_ratio_policy", "not_smaller")}, {7, 6}) == Shape{1, 6, 12});
  OnnxModel model(13);
  model.input("x", {"N", 1, 2})
      .initializer("one", {1}, Integers{1})
      .initializer("four", {1}, Integers{4})
      .initializer("zero", {1}, Integers{0})
      .node("Shape", {"x"}, "s")
      .node("Gather", {"s", "zero"}, "n")
      .node("Concat", {"n", "one", "four"}, "sizes", {A::of_int("axis", 0)})
      .node("Resize", {"x", "", "", "sizes"}, "y", {A::of_string("mode", "linear")})
      .output("y");
  CHECK(batch_layout(loaded(model)).batched);
}

TEST_CASE("what of Resize and Upsample is refused, and why") {
  const auto refusal = [](const std::vector<A>& attributes, double scale = 0.6000000238418579) {
    std::vector<A> all = {A::of_string("mode", "linear")};
    all.insert(all.end(), attributes.begin(), attributes.end());
    return resize_case(all, 4, 2, scale).refusal();
  };
  CHECK(holds(refusal({A::of_int("antialias", 1)}), "antialias"));
  CHECK(refusal({A::of_int("antialias", 1)}, 2.0).empty());
  CHECK(holds(refusal({A::of_string("coordinate_transformation_mode", "align_corners")}), "no whole number"));
  CHECK(holds(refusal({A::of_string("coordinate_transformation_mode", "tf_crop_and_resize")}), "region"));
  Case old(10, {1, 2});
  old.with("s", {2}, Floats{1, 2}).node("Resize", {"x", "s"}, {A::of_string("mode", "linear")});
  CHECK(holds(old.refusal(), "opsets before 11"));
  Case upsample(9, {1, 2});
  upsample.with("s", {2}, Floats{1, 2}).node("Upsample", {"x", "s"});
  CHECK(upsample.values() == Doubles{1, 1, 2, 2});
  Case attribute(7, {1, 2});
  attribute.node("Upsample", {"x"}, {A::of_floats("scales", {1, 2})});
  CHECK(attribute.values() == Doubles{1, 1, 2, 2});
  CHECK(holds(Case(9, {1, 2}).node("Upsample", {"x"}, {A::of_floats("scales", {1, 2})}).error(), "since opset 9"));
}
