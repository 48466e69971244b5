#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "program/flatten.hpp"

namespace driftbound {

/// Nodes in which the steps of some composites are one node again, and the node of the original graph that each belongs
/// to.
struct FusedNodes {
  std::vector<Node> nodes;
  std::vector<std::size_t> of_node;
  /// By node, the values that no later node reads: those that it is the last to read, and its output where nothing
  /// reads that.
  std::vector<std::vector<ValueId>> last_reads;
};

/// A graph compiled for inputs of known shapes: a list of primitive ops over values, with everything that does not
/// depend on data found once. What executes a graph layer by layer (values in double, radii, adjoints, signs, slopes)
/// walks a program.
class Program {
public:
  /// What changes the primitive ops of a program before it is compiled, and again for every other number of rows.
  using Rewrite = std::function<FlatGraph(FlatGraph)>;

  /// `rows`: how many samples lie in axis 0 of every input; empty where one evaluation is one sample. The graph must
  /// outlive the program.
  /// Throws:    ShapeMismatch
  Program(const Graph& graph, const std::vector<Shape>& input_shapes, std::optional<std::int64_t> rows,
          Rewrite rewrite = {});

  const Graph& graph() const { return graph_; }
  const FlatGraph& flat() const { return flat_; }
  const std::vector<Node>& nodes() const { return flat_.graph.nodes; }
  /// The same with every Gelu of what varies as one node, unless the program was rewritten.
  const FusedNodes& fused() const { return fused_; }
  const Shape& shape(ValueId id) const { return flat_.shapes[id]; }
  /// The value that is the output of a node of the original graph.
  ValueId value_of_node(std::size_t node) const { return node_outputs_[node]; }
  std::size_t size() const { return flat_.graph.values.size(); }
  /// Whether a value depends on the inputs. Others are the same for every sample.
  bool varies(ValueId id) const { return varies_[id]; }
  /// Samples that a value holds, one after the other: 1 for values that are the same for all.
  std::int64_t rows(ValueId id) const { return varies_[id] ? rows_ : 1; }
  std::int64_t rows() const { return rows_; }
  /// Elements of one row of a value.
  std::size_t row_size(ValueId id) const;
  const std::vector<Shape>& input_shapes() const { return input_shapes_; }
  /// Whether axis 0 of every input counts samples.
  bool counts_samples() const { return counts_samples_; }
  /// Whether axis 0 of every value that varies counts samples, inside composites too.
  bool keeps_rows_apart() const { return keeps_rows_apart_; }
  /// The same program for another number of samples; empty where axis 0 does not count them everywhere.
  std::optional<Program> with_rows(std::int64_t rows) const;
  /// The same for copies of a program, and of no other one.
  std::uint64_t identity() const { return identity_; }

private:
  bool node_keeps_rows_apart(const Node& node) const;
  void fuse();
  void find_last_reads();

  const Graph& graph_;
  std::vector<Shape> input_shapes_;
  bool counts_samples_ = false;
  Rewrite rewrite_;
  FlatGraph flat_;
  FusedNodes fused_;
  std::vector<ValueId> node_outputs_;
  std::int64_t rows_ = 1;
  std::vector<bool> varies_;
  bool keeps_rows_apart_ = true;
  std::uint64_t identity_;
};

/// The program of a graph for its smallest inputs: one sample where it takes samples together.
/// Throws:    ShapeMismatch; Unsupported as batch_layout()
Program program_of_one_sample(const Graph& graph);

}  // namespace driftbound
