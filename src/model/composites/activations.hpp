#pragma once

#include "driftbound/num/errors.hpp"
#include "model/composites/body.hpp"

// Functions of one element that are graphs of simpler ops, and the other steps by which programs compute them. A new one
// is an op in driftbound/model/ops.hpp, a write() here, and a rule of the ONNX loader. Included by composite.cpp alone.

namespace driftbound::composites {

inline ValueId write(Body& body, const op::Selu& selu) {
  return body.multiply(body.apply(op::Elu{selu.alpha}, {body.input(0)}), body.number(selu.gamma));
}

inline ValueId write(Body& body, const op::Celu& celu) {
  if (!(celu.alpha > 0.0)) throw InvalidArgument("Celu needs an alpha above 0");
  const ValueId x = body.input(0);
  const ValueId below = body.apply(op::Clip{-std::numeric_limits<double>::infinity(), 0.0}, {x});
  const ValueId scaled = celu.alpha == 1.0 ? below : body.divide(below, body.number(celu.alpha));
  return body.add(body.apply(op::Relu{}, {x}), body.apply(op::Elu{celu.alpha}, {scaled}));
}

inline ValueId write(Body& body, const op::HardSigmoid& sigmoid) {
  const ValueId scaled = body.multiply(body.input(0), body.number(sigmoid.alpha));
  return body.apply(op::Clip{0.0, 1.0}, {body.add(scaled, body.number(sigmoid.beta))});
}

inline ValueId write(Body& body, const op::HardSwish&) {
  const ValueId x = body.input(0);
  const ValueId line = body.add(body.divide(x, body.number(6.0)), body.number(0.5));
  return body.multiply(x, body.apply(op::Clip{0.0, 1.0}, {line}));
}

inline std::vector<Steps<op::HardSwish>> other_steps(const op::HardSwish&) {
  const auto times_a_sixth = [](Body& body, const op::HardSwish&) {
    const ValueId x = body.input(0);
    const ValueId sixth = body.divide(body.number(1.0), body.number(6.0));
    const ValueId line = body.add(body.multiply(x, sixth), body.number(0.5));
    return body.multiply(x, body.apply(op::Clip{0.0, 1.0}, {line}));
  };
  const auto divided_last = [](Body& body, const op::HardSwish&) {
    const ValueId x = body.input(0);
    const ValueId line = body.apply(op::Clip{0.0, 6.0}, {body.add(x, body.number(3.0))});
    return body.divide(body.multiply(x, line), body.number(6.0));
  };
  return {times_a_sixth, divided_last};
}

inline ValueId write(Body& body, const op::Swish& swish) {
  const ValueId x = body.input(0);
  const ValueId argument = swish.alpha == 1.0 ? x : body.multiply(x, body.number(swish.alpha));
  return body.multiply(x, body.apply(op::Sigmoid{}, {argument}));
}

inline ValueId write(Body& body, const op::Mish&) {
  const ValueId x = body.input(0);
  return body.multiply(x, body.apply(op::Tanh{}, {body.apply(op::Softplus{}, {x})}));
}

/// sign(x) floor(|x|), and 0 times the root of what is left to the end of the type's range: a number beyond it has no
/// value.
inline ValueId write(Body& body, const op::Truncate& truncate) {
  const ValueId x = body.input(0), size = body.apply(op::Abs{}, {x});
  const ValueId truncated = body.multiply(body.apply(op::Sign{}, {x}), body.apply(op::Floor{}, {size}));
  const ValueId range = body.number(truncate.to == ElementType::i32 ? 0x1p31 : 0x1p63);
  const ValueId left = body.apply(op::Sqrt{}, {body.subtract(range, size)});
  return body.add(truncated, body.multiply(left, body.number(0.0)));
}

inline ValueId write(Body& body, const op::Softsign&) {
  const ValueId x = body.input(0);
  return body.divide(x, body.add(body.number(1.0), body.apply(op::Abs{}, {x})));
}

inline std::vector<Steps<op::Softsign>> other_steps(const op::Softsign&) {
  const auto by_reciprocal = [](Body& body, const op::Softsign&) {
    const ValueId x = body.input(0);
    const ValueId divisor = body.add(body.number(1.0), body.apply(op::Abs{}, {x}));
    return body.multiply(x, body.apply(op::Reciprocal{}, {divisor}));
  };
  return {by_reciprocal};
}

/// sqrt(2 / pi), pi = 4 atan 1: the exact number, not a rounded constant
inline ValueId root_of_two_over_pi(Body& body) {
  const ValueId pi = body.multiply(body.number(4.0), body.apply(op::Atan{}, {body.number(1.0)}));
  return body.apply(op::Sqrt{}, {body.divide(body.number(2.0), pi)});
}

/// x 0.5 (1 + share)
inline ValueId half_of(Body& body, ValueId share) {
  return body.multiply(body.multiply(body.input(0), body.number(0.5)), body.add(body.number(1.0), share));
}

inline ValueId write(Body& body, const op::Gelu& gelu) {
  const ValueId x = body.input(0);
  ValueId share = 0;
  if (gelu.tanh_form) {
    const ValueId coefficient = body.divide(body.number(44715.0), body.number(1e6));
    const ValueId cube = body.multiply(x, body.multiply(x, x));
    const ValueId line = body.add(x, body.multiply(coefficient, cube));
    share = body.apply(op::Tanh{}, {body.multiply(root_of_two_over_pi(body), line)});
  } else {
    share = body.apply(op::Erf{}, {body.divide(x, body.apply(op::Sqrt{}, {body.number(2.0)}))});
  }
  return half_of(body, share);
}

inline std::vector<Steps<op::Gelu>> other_steps(const op::Gelu& gelu) {
  if (gelu.tanh_form) return {};
  const auto by_reciprocal = [](Body& body, const op::Gelu&) {
    const ValueId root = body.apply(op::Sqrt{}, {body.number(2.0)});
    const ValueId argument = body.multiply(body.input(0), body.apply(op::Reciprocal{}, {root}));
    return half_of(body, body.apply(op::Erf{}, {argument}));
  };
  return {by_reciprocal};
}

}  // namespace driftbound::composites
