#include "driftbound/bounds/theorems.hpp"

#include "bounds/theorems/op_traits.hpp"
#include "model/variant.hpp"

namespace driftbound {

bool is_correctly_rounded(const FunctionAccuracy& accuracy) {
  const std::string_view source = accuracy.source;
  const bool says_so = source.ends_with(", correctly rounded") || source.ends_with("; correctly rounded");
  return says_so && accuracy.evidence == Evidence::documented && accuracy.units == 1.0 &&
         accuracy.absolute_units == 0.0;
}

OpTheorems theorems_of(const Op& op) {
  using Is = OpTheorems;
  return std::visit(Overloaded{
                        []<ElementwiseUnary F>(const F&) -> Is {
                          using Traits = bounds::OpTraits<F>;
                          Is ids{{Traits::local.begin(), Traits::local.end()}, {Traits::propagation}, {}};
                          if (!Traits::accuracy.empty()) ids.functions = {Traits::accuracy};
                          return ids;
                        },
                        [](const op::PRelu&) -> Is {
                          return {{"T-15"}, {"T-52"}, {}};
                        },
                        [](const OneOf<op::Add, op::Sub, op::Mul, op::Div> auto&) -> Is {
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
