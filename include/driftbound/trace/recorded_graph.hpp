#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound {

/// Nodes of a model that are judged as one.
struct SegmentParts {
  std::vector<std::string> nodes;  ///< in graph order; the last one is recorded
  std::vector<std::string> from;   ///< recorded nodes and inputs of the model that it starts from
};

struct RecordedGraph {
  Graph graph;
  std::vector<SegmentParts> segments;  ///< by node of the graph; without nodes where it is one node of the model
};

/// The graph of what is recorded: one node for each of these nodes of a graph, in graph order, and nothing else computed.
/// A node whose operands are recorded, inputs or constants stays as it is. Any other becomes an op::Segment of its
/// name: the nodes between it and the recorded results, inputs and constants that it depends on, and itself. Where the
/// run stores the result of a node inside in a narrower type than it computes in, a Cast to that type, called
/// <node>/stored, follows it. A MatMul by a constant and the addition of a constant to it become a Gemm, which programs
/// compute instead. Moves of the elements of constants become constants. Outputs whose results are not recorded are left
/// out; where none is left, the recorded results that no other one depends on are the outputs.
/// `recorded`: numbers of nodes, ascending, at least one.
/// Throws:    InvalidArgument; Unsupported where results inside a segment are stored in a format that no element type has
/// Source:    docs/theory.md T-22
RecordedGraph recorded_graph(const Graph& graph, const std::vector<std::size_t>& recorded,
                             const ArithmeticModel& arithmetic);

/// Makes a trace of the model's samples, with the layers of these nodes, one of their recorded_graph(): where only nodes
/// that are gone kept samples from being evaluated together, they lie one after another along axis 0.
/// Throws:    Unsupported where samples that the model takes together cannot be without the nodes that are gone
void fit_samples(const Graph& model, const RecordedGraph& recorded, Trace& trace);

/// A layer that is not called as its record.
struct MatchedName {
  std::string layer, record;
  std::string by;  ///< "module path", "order and shape"
};

/// What of a model a trace records.
struct RecordedRunOfModel {
  Graph graph;                                ///< recorded_graph(), or the model itself where every node is recorded
  Trace trace;                                ///< one layer for every node of `graph`
  std::vector<SegmentParts> segments;         ///< by node of `graph`; empty where every node is recorded
  std::size_t nodes = 0;                      ///< of the model
  std::size_t inside = 0;                     ///< of these, nodes that lie inside segments only
  std::vector<std::string> outputs_left_out;  ///< of the model, as they are not recorded
  std::vector<MatchedName> matched;
  std::vector<std::string> copies;    ///< records that are left aside, as they hold the numbers of another one
  std::vector<std::string> unplaced;  ///< records that are left aside, as they may be of no layer, or of several
};

/// read_trace() for a trace that may lack layers: its layers are found as there, also by module path.
/// Throws:    as read_trace(), but of missing layers only where no layer is recorded; InvalidArgument where no record can
///            be told to be of a layer
RecordedRunOfModel read_recorded(const Graph& graph, const std::string& model_sha256, const std::filesystem::path& file,
                                 const Inputs& computed = {});

}  // namespace driftbound
