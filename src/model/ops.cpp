#include "driftbound/model/ops.hpp"

#include "model/variant.hpp"

namespace driftbound {

std::string_view name_of(const Op& op) {
  using View = std::string_view;
  return std::visit(Overloaded{
                        [](const op::Gemm&) -> View { return "Gemm"; },
                        [](const op::MatMul&) -> View { return "MatMul"; },
                        [](const op::Add&) -> View { return "Add"; },
                        [](const op::Sub&) -> View { return "Sub"; },
                        [](const op::Mul&) -> View { return "Mul"; },
                        [](const op::Div&) -> View { return "Div"; },
                        [](const op::Neg&) -> View { return "Neg"; },
                        [](const op::Relu&) -> View { return "Relu"; },
                        [](const op::LeakyRelu&) -> View { return "LeakyRelu"; },
                        [](const op::Elu&) -> View { return "Elu"; },
                        [](const op::Tanh&) -> View { return "Tanh"; },
                        [](const op::Sigmoid&) -> View { return "Sigmoid"; },
                        [](const op::Softplus&) -> View { return "Softplus"; },
                        [](const op::Sin&) -> View { return "Sin"; },
                        [](const op::Cos&) -> View { return "Cos"; },
                        [](const op::Exp&) -> View { return "Exp"; },
                        [](const op::Erf&) -> View { return "Erf"; },
                        [](const op::Sqrt&) -> View { return "Sqrt"; },
                        [](const op::Softmax&) -> View { return "Softmax"; },
                        [](const op::Concat&) -> View { return "Concat"; },
                        [](const op::Reshape&) -> View { return "Reshape"; },
                        [](const op::Flatten&) -> View { return "Flatten"; },
                        [](const op::Squeeze&) -> View { return "Squeeze"; },
                        [](const op::Unsqueeze&) -> View { return "Unsqueeze"; },
                        [](const op::Transpose&) -> View { return "Transpose"; },
                        [](const op::Identity&) -> View { return "Identity"; },
                        [](const op::Cast&) -> View { return "Cast"; },
                    },
                    op);
}

}  // namespace driftbound
