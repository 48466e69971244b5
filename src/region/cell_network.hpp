#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/num/interval.hpp"
#include "implicit/block_kernels.hpp"
#include "implicit/workspace.hpp"
#include "region/kernels/cells.hpp"
#include "simd/dispatch.hpp"

namespace driftbound::region {

/// What a thread needs to take cell_lanes cells through a network, and what is known of them then.
struct CellBlock {
  CellShape shape;
  implicit::AlignedDoubles affine, radii, steep, added, lost, defect, g, slope, spread, half, poison, norms, turns;
  /// Of one step.
  implicit::AlignedDoubles samples, adjoint, squares, signed_squares, weighed_squares, weighed_signed_squares, count;
  implicit::AlignedDoubles sums;        ///< value, rounding, then the gradient's
  std::vector<std::size_t> symbols_of;  ///< by the first feature of a value: rows of symbols that it has
  std::size_t widest = 0;

  CellValues values(std::size_t feature) {
    return {affine.data() + feature * shape.affine() * cell_lanes, radii.data() + feature * shape.radii * cell_lanes,
            steep.data() + feature * shape.dimension * cell_lanes};
  }
  double* row(implicit::AlignedDoubles& rows, std::size_t feature) { return rows.data() + feature * cell_lanes; }
  CellSources sources(std::size_t feature) { return {row(added, feature), row(lost, feature)}; }
  CellSlopes slopes(std::size_t at) { return {row(slope, at), row(spread, at)}; }
  CellKernels::Sums totals() { return {row(sums, 0), row(sums, 1), row(sums, 2)}; }
  BentSamples bent_samples() {
    BentSamples all;
    for (std::size_t k = 0; k < 5; ++k) {
      all.at[k] = row(samples, k * widest);
      all.value[k] = row(samples, (5 + k) * widest);
      all.slope[k] = row(samples, (10 + k) * widest);
    }
    return all;
  }
};

/// One step for a block of cells. Features of values, and rows of slopes, are named by their numbers in the block.
class CellWork {
public:
  struct Place {
    std::vector<std::size_t> reads;   ///< the first feature of every operand
    std::vector<bool> is_alone;       ///< by operand: nobody else reads it
    std::vector<std::size_t> owners;  ///< by operand: the first feature of the value that it is part of
    std::size_t writes = 0, features = 0, slopes = 0;
  };

  virtual ~CellWork() = default;
  virtual void forward(const Place& place, CellBlock& block) const = 0;
  /// Adds what the step contributes to the errors of the output, and its part of the adjoints of its operands.
  virtual void backward(const Place& place, CellBlock& block) const = 0;
  /// Appends what the step computes: a name, and its numbers.
  virtual void describe(std::string& text) const = 0;
  virtual bool is_linear_in_pieces() const { return true; }
  /// Rows of features that the step needs behind those of its value, for each of these, and of slopes.
  virtual std::size_t spare_features() const { return 0; }
  virtual std::size_t slots(const Place& place) const { return place.reads.size() <= 2 ? place.reads.size() : 0; }
};

/// What is asked of cells.
struct CellQuestions {
  bool gradients = false, rounding = false;
  std::size_t refined_radii = 0;  ///< bounds of rounding errors that a cell has a sweep of their own for
};

/// What is known of the cells of a block, one number a cell.
struct CellAnswers {
  double lower[cell_lanes], upper[cell_lanes], rounding[cell_lanes];
  std::vector<double> gradient_lower, gradient_upper;  ///< one row a coordinate
};

/// Pieces of rays: the points origin + t direction, first <= t <= last. Points are kept row by row.
struct RayPieces {
  std::span<const double> origin, direction, first, last;
};

/// What is known of them: |f(origin + t direction) - middle - tangent (t - at)| <= rest.
struct PieceAnswers {
  double at[cell_lanes], middle[cell_lanes], tangent[cell_lanes], rest[cell_lanes];
};

/// A network of one input and one output element written out for blocks of cells. Thread-safe when const.
/// Source:    docs/theory.md T-150 to T-153, T-188
class CellNetwork {
public:
  /// `graph`: as scalar_graph() makes it.
  /// Throws:    Unsupported naming the op that has no relaxation
  explicit CellNetwork(const Graph& graph);
  ~CellNetwork();

  std::size_t dimension() const { return dimension_; }
  /// Whether float32 holds all constants.
  bool is_float32() const { return is_float32_; }
  bool is_linear_in_pieces() const;
  /// SHA-256 over all steps.
  std::string fingerprint() const;

  /// `symbols`: error terms that a cell follows by themselves, the others are added up.
  std::unique_ptr<CellBlock> block(std::size_t symbols) const;
  /// Cells, row by row: coordinate j of cell i is in [lower[i dimension + j], upper[i dimension + j]].
  /// Domain:    1 to cell_lanes cells whose bounds are finite, the lower one first
  void enclose(std::span<const double> lower, std::span<const double> upper, CellQuestions questions, CellBlock& block,
               CellAnswers& answers) const;
  /// Pieces of rays are cells of one coordinate.
  /// Domain:    1 to cell_lanes pieces of finite numbers, first <= last
  /// Source:    docs/theory.md T-156
  void enclose_pieces(const RayPieces& pieces, CellBlock& block, PieceAnswers& answers) const;

private:
  /// The output of a cell is in middle + t (x - x_0) up to this.
  struct Enclosed {
    double middle = 0.0, rest = 0.0;
    bool is_known = false;
  };
  void start(std::size_t dimension, CellQuestions questions, CellBlock& block) const;
  void follow(CellBlock& block) const;
  /// One element of the values a cell.
  using Elements = std::array<std::size_t, cell_lanes>;
  /// Errors of these elements, by all that is before them.
  void sweep(const Elements& from, CellBlock& block) const;
  void sweep_from_output(CellBlock& block) const;
  /// Sweeps from `most` elements a cell, those by which bends spread rounding errors most, and once more from the output.
  void refine(std::size_t most, CellBlock& block) const;
  double* rounding_of(std::size_t feature, CellBlock& block) const;
  Enclosed enclosed(const CellBlock& block, const double* affine, const double* radii, std::size_t i) const;
  Interval derivative(const CellBlock& block, const double* affine, const double* radii, std::size_t i,
                      std::size_t j) const;
  struct Step {
    std::unique_ptr<const CellWork> work;
    CellWork::Place place;
  };
  /// An operand of a step of single elements.
  struct Bend {
    std::size_t reads, writes, slopes, features;
  };
  void add(std::unique_ptr<const CellWork> work, CellWork::Place place);
  void find_deep_bends();

  std::size_t dimension_ = 0, features_ = 0, slopes_ = 0, widest_ = 0, output_ = 0;
  bool is_float32_ = true;
  std::vector<Step> steps_;
  std::vector<Bend> deep_bends_;  ///< behind three dense layers: up to there sums of magnitudes lose little
};

}  // namespace driftbound::region
