#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "driftbound/reference/reference.hpp"
#include "reference/ball_tensor.hpp"
#include "reference/kernels/pairs.hpp"
#include "reference/pair_tensor.hpp"

namespace driftbound {

/// Bits of the rung in double.
inline constexpr int double_bits = 53;

/// The balls of one layer while the precision is raised, row by row: which elements are precise enough,
/// since which precision, and which would gain from more bits.
class LayerLedger {
public:
  /// `computed` (may be null) has as many elements as the layer, recorded as `type`.
  LayerLedger(Shape shape, std::size_t rows, const Tensor<double>* computed, ElementType type,
              const PrecisionPolicy& policy);

  /// Takes the balls of the rows named for the elements that are open. Threads may record different rows at a time.
  void record(std::span<const std::size_t> rows, const BallTensor& balls);
  /// The same in double-double: what is not precise enough stays open, as it may gain from more bits.
  void record(std::span<const std::size_t> rows, const PairTensor& balls);
  /// The same for one row in double, all of it within `radius`: it is taken where all of it is precise enough.
  void record_doubles(std::size_t row, std::span<const double> values, double radius);
  /// The same for single elements; threads may record different rows at a time.
  void record_elements(std::span<const std::size_t> elements, const BallTensor& balls);
  std::size_t rows() const { return rows_; }
  bool is_open(std::size_t row) const;
  /// Open elements of rows.
  std::vector<std::size_t> open_elements(std::span<const std::size_t> rows) const;
  /// Adds the counts of this layer to the reference and moves its balls there.
  void close(Reference& reference);

private:
  void make_room();
  void make_room_for_elements();
  void store(std::size_t first, ConstPairs row);
  void record(std::size_t element, const MpBall& ball, int bits, BallTensor& scratch);
  bool is_precise(std::size_t element, const Ball& ball) const;

  Shape shape_;
  std::size_t size_, rows_, width_;
  const Tensor<double>* computed_;
  WantedPrecision wanted_;
  bool is_alone_;  ///< one thread
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  std::vector<Ball> balls_;                ///< those recorded so far, one row after the other, or all
  std::vector<unsigned char> whole_rows_;  ///< bits of the rung in doubles that decided all of a row; 0: none
  std::vector<int> decided_at_;            ///< of the other rows: bits, or one of the states in the source; made late
};

}  // namespace driftbound
