#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/document.hpp"
#include "analysis/surface_difference.hpp"
#include "driftbound/bounds/target.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/region/mesh.hpp"

namespace driftbound::analysis {

/// What a run makes of a surface: its signs at the nodes of the same cells, meshed by the same rules.
struct ComputedSurface {
  std::string arithmetic;
  std::int64_t wrong_nodes = 0;  ///< whose computed sign is not that of the exact network
  std::int64_t wrong_cells = 0;  ///< with such a node
  SurfaceDifference difference;  ///< from the mesh of the exact network
  double seconds = 0.0;          ///< of the evaluation and of the mesh
  SurfaceMesh mesh;
};

/// Evaluates the scalar at the nodes of a mesh, rounded to the type of the model's input, and meshes its values.
/// Throws:    what the evaluator throws
ComputedSurface computed_surface(const Graph& graph, const Target& target, double iso, const Evaluator& evaluator,
                                 const SurfaceMesh& mesh, int threads);

/// A mesh and what it was made of.
struct MeshReport {
  std::string command = {}, date = {}, version = {};
  std::string model_file = {}, model_sha256 = {};
  std::string scalar = {};
  Box box = {};  ///< asked for
  double iso = 0.0;
  int depth = 0, threads = 0;
  std::string mesh_file = {}, uncertain_file = {}, computed_file = {};  ///< empty: none
  SurfaceMesh mesh = {};
  std::optional<ComputedSurface> computed = {};
};

/// The report as a document: "CERTIFIED: the surface sdf = 0 in …: 1 component, …", a line per component, and what the
/// run makes of it. JSON has the schema driftbound/mesh/1 (docs/schema/mesh-1.json).
Document document_of(const MeshReport& report);

}  // namespace driftbound::analysis
