#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "program/flatten.hpp"

namespace driftbound {

/// The nodes of a program in which some composites are kept as one node (a fused op) instead of their bodies.
struct FusedNodes {
  std::vector<Node> nodes;
  std::vector<std::size_t> of_node;              ///< by node: the node of the original graph that it belongs to
  std::vector<std::vector<ValueId>> last_reads;  ///< as Program::last_reads()
};

/// A graph compiled for inputs of known shapes: a list of primitive ops, and everything that follows from the graph and
/// the shapes alone. Every evaluation that processes a graph node by node (values in double, radii, adjoints, signs,
/// slopes) iterates over the nodes of a program.
class Program {
public:
  /// A transformation of the flat graph. It is applied before the program is compiled, and again in with_rows().
  using Rewrite = std::function<FlatGraph(FlatGraph)>;

  /// `rows`: the number of samples in axis 0 of every input; empty if the inputs have no axis of samples. The graph
  /// must outlive the program.
  /// Throws:    ShapeMismatch
  Program(const Graph& graph, const std::vector<Shape>& input_shapes, std::optional<std::int64_t> rows,
          Rewrite rewrite = {});

  const Graph& graph() const { return graph_; }
  const FlatGraph& flat() const { return flat_; }
  const std::vector<Node>& nodes() const { return flat_.graph.nodes; }
  /// By node: those of its inputs that no later node reads, and its output if no later node reads it.
  const std::vector<std::vector<ValueId>>& last_reads() const { return last_reads_; }
  /// The nodes with every Gelu that depends on the inputs as one node. Equal to nodes() if a Rewrite was given.
  const FusedNodes& fused() const { return fused_; }
  const Shape& shape(ValueId id) const { return flat_.shapes[id]; }
  /// Returns the value in the flat graph that is the output of a node of the original graph.
  ValueId value_of_node(std::size_t node) const { return node_outputs_[node]; }
  /// Whether a value of the flat graph is a value of the original graph. Others are computed inside a composite.
  bool is_layer(ValueId id) const { return is_layer_[id]; }
  std::size_t size() const { return flat_.graph.values.size(); }
  /// Whether a value depends on the inputs. A value that does not is the same for every sample.
  bool varies(ValueId id) const { return varies_[id]; }
  /// Returns the number of rows (samples) in a value: 1 for a value that does not depend on the inputs.
  std::int64_t rows(ValueId id) const { return varies_[id] ? rows_ : 1; }
  std::int64_t rows() const { return rows_; }
  /// Returns the number of elements in one row of a value.
  std::size_t row_size(ValueId id) const;
  const std::vector<Shape>& input_shapes() const { return input_shapes_; }
  /// Whether axis 0 of every input is the axis of samples.
  bool counts_samples() const { return counts_samples_; }
  /// Whether, at every node of the flat graph, row i of the output depends on row i of the operands only.
  bool keeps_rows_apart() const { return keeps_rows_apart_; }
  /// Returns the program for another number of samples; empty if the inputs have no axis of samples, or if
  /// keeps_rows_apart() does not hold for the result.
  std::optional<Program> with_rows(std::int64_t rows) const;
  /// A number that copies of a program share, and that differs between any other two programs.
  std::uint64_t identity() const { return identity_; }

protected:
  /// As above. `flat`: the rewritten flat graph, where it is already known.
  Program(const Graph& graph, const std::vector<Shape>& input_shapes, std::optional<std::int64_t> rows, Rewrite rewrite,
          FlatGraph flat);

private:
  bool node_keeps_rows_apart(const Node& node) const;
  void fuse();

  const Graph& graph_;
  std::vector<Shape> input_shapes_;
  bool counts_samples_ = false;
  Rewrite rewrite_;
  FlatGraph flat_;
  std::vector<std::vector<ValueId>> last_reads_;
  FusedNodes fused_;
  std::vector<ValueId> node_outputs_;
  std::vector<bool> is_layer_;
  std::int64_t rows_ = 1;
  std::vector<bool> varies_;
  bool keeps_rows_apart_ = true;
  std::uint64_t identity_;
};

}  // namespace driftbound
