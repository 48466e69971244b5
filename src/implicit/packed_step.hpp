#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "implicit/kernels/blocks.hpp"

namespace driftbound::implicit {

/// One step of a packed network. Values are named by where they lie in a workspace once places() are known.
class PackedStep {
public:
  virtual ~PackedStep() = default;
  /// For a block of rows, or one, whose elements lie side by side. False where nothing is known of the result.
  virtual bool run(double* workspace, std::size_t rows, double* check) const = 0;

  /// Numbers of the buffers read and written, replaced by their places before run(); offsets within them stay.
  struct Place {
    std::size_t buffer = 0, offset = 0;  ///< the offset in features
    std::size_t at = 0;                  ///< in features from the start of the workspace
  };
  std::vector<Place> reads;
  Place writes;
  std::size_t features = 0;    ///< written, those that pad them included
  bool may_overwrite = false;  ///< element by element: the result may lie where the first operand does

protected:
  /// `doubles`: of a feature
  const double* operand(const double* workspace, std::size_t i, std::size_t doubles) const {
    return workspace + reads[i].at * doubles;
  }
  double* result(double* workspace, std::size_t doubles) const { return workspace + writes.at * doubles; }
  template <class Loop>
  static Loop loop_for(const BlockKernels::Both<Loop>& both, std::size_t rows) {
    return rows == 1 ? both.point : both.block;
  }
};

/// y = W x + b, rectified if asked.
class DenseLayer : public PackedStep {
public:
  virtual void set_weight(std::size_t k, std::size_t j, double value) = 0;
  virtual void set_bias(std::size_t j, double value) = 0;
  void rectify() { rectified_ = true; }

protected:
  bool rectified_ = false;
};

}  // namespace driftbound::implicit
