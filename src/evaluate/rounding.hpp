#pragma once

#include "driftbound/model/tensor.hpp"
#include "driftbound/num/format.hpp"

namespace driftbound {

/// How operands may be read.
struct OperandChoice {
  FormatId format = FormatId::fp32;
  Rounding rounding = Rounding::nearest_even;

  friend bool operator==(const OperandChoice&, const OperandChoice&) = default;
};

/// Every element rounded to a format whose numbers are all numbers of Real.
template <class Real>
Tensor<Real> rounded(const StoredTensor& stored, FormatId target, Rounding rounding = Rounding::nearest_even);
template <class Real>
Tensor<Real> rounded(Tensor<Real> values, FormatId target, Rounding rounding = Rounding::nearest_even);

/// x in the format, or in Real where the format is wider.
template <class Real>
Real rounded(double x, FormatId target, Rounding rounding = Rounding::nearest_even);

}  // namespace driftbound
