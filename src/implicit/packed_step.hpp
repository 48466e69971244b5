#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace driftbound::implicit {

/// A value of a packed network: the number of the buffer that holds it, replaced by its place before steps are run; the
/// offset within the buffer stays.
struct PackedPlace {
  std::size_t buffer = 0, offset = 0;  ///< the offset in features
  std::size_t at = 0;                  ///< in features from the start of the workspace
};

/// One step of a packed network. Values are named by where they lie in a workspace once places are known.
template <class Real>
class PackedStep {
public:
  virtual ~PackedStep() = default;
  /// For a block of rows, or one, whose elements lie side by side. False where nothing is known of the result.
  virtual bool run(Real* workspace, std::size_t rows, Real* check) const = 0;

  std::vector<PackedPlace> reads;
  PackedPlace writes;
  std::size_t features = 0;    ///< written, those that pad them included
  bool may_overwrite = false;  ///< element by element: the result may lie where the first operand does

protected:
  /// `numbers`: of a feature
  const Real* operand(const Real* workspace, std::size_t i, std::size_t numbers) const {
    return workspace + reads[i].at * numbers;
  }
  Real* result(Real* workspace, std::size_t numbers) const { return workspace + writes.at * numbers; }
};

/// y = W x + b, rectified if asked.
template <class Real>
class DenseLayer : public PackedStep<Real> {
public:
  virtual void set_weight(std::size_t k, std::size_t j, double value) = 0;
  virtual void set_bias(std::size_t j, double value) = 0;
  void rectify() { rectified_ = true; }

protected:
  bool rectified_ = false;
};

}  // namespace driftbound::implicit
