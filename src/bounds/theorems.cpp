#include "driftbound/bounds/theorems.hpp"

#include "model/variant.hpp"

namespace driftbound {
namespace {

using Ids = std::vector<std::string_view>;

/// Theorems of an op that is one call of a function: its local bound is T-16.
OpTheorems call(std::string_view function, Ids propagation) {
  return {{"T-16"}, std::move(propagation), {function}};
}

}  // namespace

bool is_correctly_rounded(const FunctionAccuracy& accuracy) {
  const std::string_view source = accuracy.source;
  const bool says_so = source.ends_with(", correctly rounded") || source.ends_with("; correctly rounded");
  return says_so && accuracy.evidence == Evidence::documented && accuracy.units == 1.0 &&
         accuracy.absolute_units == 0.0;
}

OpTheorems theorems_of(const Op& op) {
  using Is = OpTheorems;
  return std::visit(Overloaded{
                        [](const OneOf<op::Neg, op::Relu, op::Clip> auto&) -> Is {
                          return {{"T-15"}, {"T-41"}, {}};
                        },
                        [](const op::Cast&) -> Is {
                          return {{"T-14"}, {"T-41"}, {}};
                        },
                        [](const OneOf<op::Abs, op::Floor, op::Ceil, op::Sign> auto&) -> Is {
                          return {{"T-15"}, {"T-50"}, {}};
                        },
                        [](const op::LeakyRelu&) -> Is {
                          return {{"T-18"}, {"T-41"}, {}};
                        },
                        [](const op::Elu&) -> Is {
                          return {{"T-18"}, {"T-43"}, {"expm1"}};
                        },
                        [](const OneOf<op::PRelu, op::ThresholdedRelu> auto&) -> Is {
                          return {{"T-15"}, {"T-52"}, {}};
                        },
                        [](const op::Tanh&) { return call("tanh", {"T-42"}); },
                        [](const op::Sigmoid&) { return call("sigmoid", {"T-42"}); },
                        [](const op::Softplus&) { return call("softplus", {"T-42"}); },
                        [](const op::Sin&) { return call("sin", {"T-42"}); },
                        [](const op::Cos&) { return call("cos", {"T-42"}); },
                        [](const op::Erf&) { return call("erf", {"T-42"}); },
                        [](const op::Exp&) { return call("exp", {"T-43"}); },
                        [](const op::Log&) { return call("log", {"T-46"}); },
                        [](const op::Tan&) { return call("tan", {"T-47"}); },
                        [](const op::Atan&) { return call("atan", {"T-47"}); },
                        [](const op::Sinh&) { return call("sinh", {"T-48"}); },
                        [](const op::Cosh&) { return call("cosh", {"T-48"}); },
                        [](const op::Pow&) { return call("pow", {"T-49"}); },
                        [](const op::Sqrt&) -> Is {
                          return {{"T-15", "T-16"}, {"T-43"}, {"sqrt"}};
                        },
                        [](const OneOf<op::Reciprocal, op::Add, op::Sub, op::Mul, op::Div> auto&) -> Is {
                          return {{"T-15"}, {"T-44"}, {}};
                        },
                        [](const OneOf<op::Min, op::Max> auto&) -> Is {
                          return {{"T-15"}, {"T-50"}, {}};
                        },
                        [](const Comparison auto&) -> Is {
                          return {{"T-15"}, {"T-50"}, {}};
                        },
                        [](const op::Choice&) -> Is {
                          return {{"T-15"}, {"T-54"}, {}};
                        },
                        [](const OneOf<op::Gemm, op::MatMul> auto&) -> Is {
                          return {{"T-10", "T-11", "T-12", "T-13", "T-68", "T-69", "T-21"}, {"T-40"}, {}};
                        },
                        [](const op::ReduceSum&) -> Is {
                          return {{"T-10", "T-11", "T-68", "T-69"}, {"T-53"}, {}};
                        },
                        [](const OneOf<op::ReduceMax, op::ReduceMin> auto&) -> Is {
                          return {{"T-15"}, {"T-53"}, {}};
                        },
                        [](const op::Softmax&) -> Is {
                          return {{"T-17"}, {"T-45"}, {"exp"}};
                        },
                        [](const Selection auto&) -> Is {
                          return {{"T-15"}, {"T-41"}, {}};
                        },
                        [](const Composite auto&) -> Is {
                          return {{"T-22"}, {"T-22"}, {}};
                        },
                    },
                    op);
}

}  // namespace driftbound
