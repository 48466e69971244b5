#pragma once

#include "driftbound/model/tensor.hpp"
#include "driftbound/num/format.hpp"

namespace driftbound {

/// Every element rounded to nearest even to a format whose numbers are all numbers of Real.
template <class Real>
Tensor<Real> rounded(const StoredTensor& stored, FormatId target);
template <class Real>
Tensor<Real> rounded(Tensor<Real> values, FormatId target);

/// x in the format, or in Real where the format is wider.
template <class Real>
Real rounded(double x, FormatId target);

}  // namespace driftbound
