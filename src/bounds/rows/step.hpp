#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <vector>

#include "bounds/kernels/element_kernels.hpp"
#include "bounds/nodes/plain_rows.hpp"
#include "bounds/rows/run_step.hpp"
#include "bounds/theorems/defects.hpp"
#include "bounds/theorems/norms.hpp"
#include "bounds/theorems/rows.hpp"
#include "bounds/theorems/trajectories.hpp"

namespace driftbound::bounds::steps {

inline constexpr double unit = 0x1p-53;
inline const Magnitude half_ulp(unit);
inline const Magnitude smallest(0x1p-1074);

inline Magnitude root_of(std::size_t count) {
  return sqrt_up(Magnitude(static_cast<double>(count)));
}

/// Kernels, the format of the run, and helper functions that all steps share.
class Step : public RunStep {
public:
  Step(const Setting& setting, std::int64_t most_leaves)
      : rows_(row_kernels()), format_(row_format(setting, most_leaves)) {}

protected:
  /// Limits the elementwise radii of a row to `norm`, makes radii infinite where a run may overflow, and stores the
  /// smaller bound of the row's 2-norm.
  void finish(RunRows& result, std::size_t row, Magnitude norm) const {
    finish(result.centre, row, norm, result.radius, result.norm);
  }
  void finish_in_order(RunRows& result, std::size_t row, Magnitude norm) const {
    finish(result.centre, row, norm, result.in_order.radius, result.in_order.norm);
  }
  void finish(const std::vector<double>& centre, std::size_t row, Magnitude norm, std::vector<double>& radius,
              std::vector<double>& norms) const {
    const std::size_t n = centre.size() / norms.size(), first = row * n;
    rows_.limit(centre.data() + first, norm.value(), 0.5 * format_.largest, radius.data() + first, n);
    norms[row] = theorems::norm_of_row(norm_of(radius, row, n).value(), norm.value());
  }
  Magnitude norm_of(const std::vector<double>& values, std::size_t row, std::size_t n) const {
    return theorems::norm_of_vector(std::span(values).subspan(row * n, n));
  }
  Magnitude largest_of(const std::vector<double>& values, std::size_t row, std::size_t n) const {
    return Magnitude(rows_.largest(values.data() + row * n, n));
  }

  void multiply_by_slopes(const RunErrors& errors, std::span<const std::size_t> rows, const RunAdjoint& y,
                          RunAdjoint& share) const {
    const std::size_t n = y.d.size() / rows.size();
    for (std::size_t i = 0; i < rows.size(); ++i)
      elements_.mul(y.d.data() + i * n, errors.slopes.data() + rows[i] * n, share.d.data() + i * n, n);
  }

  static void push_by_slopes(const float* x, const RunErrors& errors, std::span<const std::size_t> rows,
                             std::size_t copies, std::vector<float>& result) {
    const std::size_t n = result.size() / (rows.size() * copies);
    std::vector<float> slopes(n);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(errors.slopes.data() + rows[i] * n, n, slopes.data());
      for (std::size_t first = i * copies * n; first < (i + 1) * copies * n; first += n)
        for (std::size_t k = 0; k < n; ++k) result[first + k] = slopes[k] * x[first + k];
    }
  }

  void multiply_by_slopes(std::span<const float> slopes, std::span<const std::size_t> rows, const SingleAdjoint& y,
                          SingleAdjoint& share) const {
    const std::size_t n = y.d.size() / rows.size();
    for (std::size_t i = 0; i < rows.size(); ++i) multiply_row(y, slopes.data() + rows[i] * n, share, i, n);
  }
  void multiply_row(const SingleAdjoint& y, const float* factors, SingleAdjoint& share, std::size_t row,
                    std::size_t n) const {
    const double largest = rows_.single_product(y.d.data() + row * n, factors, share.d.data() + row * n, n);
    share.defect[row] = theorems::single_rounding(largest);
  }

  /// Allocates the local errors of every kind of order that is asked for.
  static void allocate_added(RunErrors& errors, std::size_t count, const RunRequest& request) {
    errors.added.resize(count);
    if (request.in_order) errors.added_in_order.resize(count);
  }
  static void allocate_remainder(RunErrors& errors, std::size_t count, const RunRequest& request) {
    errors.remainder.resize(count);
    if (request.in_order) errors.remainder_in_order.resize(count);
  }

  /// Destinations of the radii of a row of a function's result; null: not needed.
  struct Moved {
    double *any_order = nullptr, *in_order = nullptr;
  };
  static double* in_order_at(RunRows& result, std::size_t first, const RunRequest& request) {
    return request.in_order ? result.in_order.radius.data() + first : nullptr;
  }
  static Moved into(RunScratch& scratch, std::size_t n, const RunRequest& request) {
    for (std::vector<double>* row : {&scratch.own, &scratch.larger, &scratch.small}) row->resize(n);
    return {scratch.larger.data(), request.in_order ? scratch.small.data() : nullptr};
  }

  void update_remainder(const RunRows&, const RunRows&, std::span<const std::size_t>, const RunRequest&, RunErrors&,
                        RunScratch&) const override {
    throw std::logic_error("RunStep::update_remainder: the node is not a function of one element");
  }

  /// Sets the defect of every row to that of one rounded multiplication per element.
  void lose_rounding(RunAdjoint& share, std::size_t size) const {
    for (std::size_t row = 0; row < share.defect.size(); ++row)
      share.defect[row] = theorems::defect(largest_of(share.d, row, size).value(), 1, 1);
  }

  const RowKernels& rows_;
  const ElementKernels& elements_ = fastest_element_kernels();
  const RowFormat format_;
};

}  // namespace driftbound::bounds::steps
