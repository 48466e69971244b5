#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace driftbound::implicit {

/// One step of a packed network. Values are named by where they lie in a workspace once places() are known.
class PackedStep {
public:
  virtual ~PackedStep() = default;
  /// False where nothing is known of the result.
  virtual bool run(double* workspace, double* check) const = 0;

  /// Numbers of the buffers read and written, replaced by their places before run(); offsets within them stay.
  struct Place {
    std::size_t buffer = 0, offset = 0;  ///< the offset in features
    std::size_t at = 0;                  ///< in doubles from the start of the workspace
  };
  std::vector<Place> reads;
  Place writes;
  std::size_t features = 0;    ///< written, those that pad them included
  bool may_overwrite = false;  ///< element by element: the result may lie where the first operand does
};

}  // namespace driftbound::implicit
