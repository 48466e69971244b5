#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/json_schema.hpp"
#include "support/onnx_writer.hpp"
#include "support/run_program.hpp"

using driftbound::test::read_file;
using driftbound::test::TemporaryFolder;

namespace {

const std::string examples = std::string(DRIFTBOUND_SOURCE_DIR) + "/examples/models/";
const std::string torus = examples + "torus_sdf_softplus.onnx";

nlohmann::json mesh_json(const ProgramResult& result) {
  const nlohmann::json json = nlohmann::json::parse(result.out);
  CHECK(schema_errors(std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/mesh-1.json", json) == "");
  return json;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("mesh: a bundled torus has one component of genus 1, in a file" * doctest::test_suite("campaign")) {
  const TemporaryFolder folder;
  const ProgramResult result = run_program("mesh " + torus + " --cell 2^-4 --json - -o " + folder.file("torus.ply"));
  CHECK(result.status == 0);
  const nlohmann::json json = mesh_json(result);
  CHECK(json["components"] == 1);
  CHECK(json["euler_characteristic"] == 0);
  CHECK(json["genus"] == nlohmann::json::array({1}));
  CHECK(json["uncertain_cells"] == 0);
  CHECK(json["exact"] == false);
  CHECK(json["boundary_edges"] == 0);
  CHECK(json["computed"]["components"] == 1);
  CHECK(contains(read_file(folder.file("torus.ply")),
                 "element vertex " + std::to_string(json["vertices"].get<int>()) + "\n"));
  const ProgramResult text = run_program("mesh " + torus + " --cell 2^-4");
  CHECK(contains(text.out, "CERTIFIED: the surface sdf = 0 in -1:1,-1:1,-1:1 has 1 component"));
}

TEST_CASE("mesh: a level that is never reached is an empty mesh, and says so") {
  const ProgramResult nothing = run_program("mesh " + torus + " --cell 2^-2 --iso 50 --json -");
  CHECK(nothing.status == 0);
  CHECK(mesh_json(nothing)["faces"] == 0);
  const TemporaryFolder folder;
  const auto file_of = [&](const std::string& ending) {
    const std::string file = folder.file("none" + ending);
    CHECK(contains(run_program("mesh " + torus + " --cell 2^-2 --iso 50 -o " + file).out, "The mesh is empty."));
    return read_file(file);
  };
  CHECK(contains(file_of(".ply"), "element face 0\n"));
  CHECK_FALSE(contains(file_of(".obj"), "\nf "));
  CHECK(contains(file_of(".vtp"), "NumberOfPolys=\"0\""));
  const std::string stl = file_of(".stl");
  CHECK(stl.starts_with("solid "));
  CHECK(contains(stl, "\nendsolid "));
}

TEST_CASE("mesh: cells too coarse for a certificate are undecided, and written to a file of their own") {
  const TemporaryFolder folder;
  const ProgramResult coarse = run_program("mesh " + torus + " --cell 2^-1 --depth 0 --refine 0 --json - --uncertain " +
                                           folder.file("open.stl"));
  CHECK(coarse.status == 1);
  const nlohmann::json json = mesh_json(coarse);
  const auto open = json["uncertain_cells"].get<std::size_t>();
  CHECK(open > 0);
  CHECK(std::filesystem::file_size(folder.file("open.stl")) == 84 + 50 * 12 * open);
}

namespace {

/// One Relu of w . x.
std::string rectifier(const TemporaryFolder& folder, const std::vector<float>& w) {
  const auto size = static_cast<std::int64_t>(w.size());
  const std::string bytes = driftbound::test::OnnxModel(13)
                                .input("x", {"N", size})
                                .initializer("w", {size, 1}, w)
                                .node("MatMul", {"x", "w"}, "y")
                                .node("Relu", {"y"}, "z")
                                .output("z")
                                .bytes();
  return folder.write("rectifier.onnx", bytes).string();
}

}  // namespace

TEST_CASE("mesh: where no part is certified there is no distance, and no word of certified parts") {
  const TemporaryFolder folder;
  const std::string half = "mesh " + rectifier(folder, {1, 0, 0}) + " --cell 2^-2";
  const nlohmann::json json = mesh_json(run_program(half + " --json -"));
  CHECK(json["certified"] == false);
  CHECK(json["components"] == 0);
  CHECK(json["distance"].is_null());
  CHECK(contains(run_program(half).out, "The mesh is empty, and nothing"));
}

TEST_CASE("mesh: cells too coarse for a certificate are halved, and the report says so" *
          doctest::test_suite("campaign")) {
  const std::string command = "mesh " + torus + " --cell 2^-2 --depth 4";
  const nlohmann::json coarse = mesh_json(run_program(command + " --refine 0 --json -"));
  CHECK(coarse["certified"] == false);
  CHECK(coarse["refinements"] == 0);
  const nlohmann::json fine = mesh_json(run_program(command + " --json -"));
  CHECK(fine["certified"] == true);
  CHECK(fine["genus"] == nlohmann::json::array({1}));
  CHECK(fine["refinements"] == 1);
  CHECK(fine["cell"][0].get<double>() < 0.13);
  CHECK(contains(run_program(command).out, "halved once, as larger ones were uncertain"));
}

TEST_CASE("mesh: of rectifiers it is the surface itself") {
  const std::string sphere = "mesh " + examples + "sphere_cut_sdf_relu.onnx --box=0:0.375 --cell 2^-6";
  const nlohmann::json json = mesh_json(run_program(sphere + " --json -"));
  CHECK(json["exact"] == true);
  CHECK(json["certified"] == true);
  CHECK(json["genus"] == nlohmann::json::array({0}));
  CHECK(json["distance"].get<double>() < 1e-6);
  CHECK(contains(run_program(sphere).out, "The network is linear in pieces"));
}

TEST_CASE("mesh: cells with too many pieces of a rectifier have the certificate of other networks") {
  const ProgramResult result =
      run_program("mesh " + examples + "sphere_cut_sdf_relu.onnx --cell 2^-1 --depth 0 --refine 0 --json -");
  CHECK(result.status == 1);
  const nlohmann::json json = mesh_json(result);
  CHECK(json["exact"] == false);
  CHECK(json["certified"] == false);
  CHECK(json["uncertain_cells"].get<int>() > 0);
}

TEST_CASE("mesh: what makes no mesh is refused, and nothing is written") {
  const TemporaryFolder folder;
  const std::string file = folder.file("mesh.ply");
  const auto check = [&](const std::string& arguments, const std::string& message) {
    const ProgramResult result = run_program("mesh " + torus + " -o " + file + " " + arguments);
    CHECK_MESSAGE(result.status == 3, arguments);
    CHECK_MESSAGE(contains(result.err, message), result.err);
    CHECK_FALSE(std::filesystem::exists(file));
  };
  check("--box 1:-1", "1");
  check("--box 0:0", "which is empty");
  check("--box nan:1", "not a finite number");
  check("--box -1e39:1e39", "float32");
  check("--cell 0", "must be a positive number");
  check("--cell -1", "must be a positive number");
  check("--cell x", "'x' is not a number");
  check("--iso nan", "not finite");
  check("--uncertain " + folder.file("a.off"), "a mesh is written as .ply, .obj, .vtp or .stl");
  check("--computed " + file, "would replace an input or another output");
  const ProgramResult plane = run_program("mesh " + rectifier(folder, {1, 1}));
  CHECK(plane.status == 3);
  CHECK(contains(plane.err, "rectifier.onnx: a mesh needs a network of three coordinates, this one has 2"));
  const std::string report = folder.file("mesh.json");
  const ProgramResult small =
      run_program("mesh " + torus + " --cell 2^-3 -o " + file + " --json " + report, "ulimit -f 8; ");
  CHECK(small.status == 3);
  CHECK(small.out == "");
  CHECK(contains(small.err, "mesh.ply"));
  CHECK_FALSE(std::filesystem::exists(file));
  CHECK_FALSE(std::filesystem::exists(report));
  if (std::filesystem::exists("/dev/full")) {
    const ProgramResult full = run_program("mesh " + torus + " --cell 2^-2 --json /dev/full");
    CHECK(full.status == 3);
    CHECK(contains(full.err, "cannot be written"));
  }
}

TEST_CASE("certify --vtk writes an image of values, signs and cells, with a grid alone") {
  const TemporaryFolder folder;
  const std::string file = folder.file("volume.vti");
  REQUIRE(run_program("certify " + torus + " --grid 5x4x3 --quiet --vtk " + file).status == 0);
  const std::string text = read_file(file);
  CHECK(contains(text, "WholeExtent=\"0 4 0 3 0 2\""));
  const std::size_t data = text.find("\n_") + 2;
  const std::size_t bytes = (8 + 60 * 8) + (8 + 60) + 2 * (8 + 24);
  const std::string corners = text.substr(data + bytes - 56, 24), states = text.substr(data + bytes - 24, 24);
  for (std::size_t i = 0; i < 24; ++i) CHECK((states[i] == corners[i] || states[i] == 2));
  CHECK(std::all_of(states.begin(), states.end(), [](char state) { return state >= -1 && state <= 2; }));
  CHECK(text.substr(data + bytes) == "\n</AppendedData>\n</VTKFile>\n");
  const auto refused = [&](const std::string& arguments, const std::string& message) {
    const ProgramResult result = run_program("certify " + arguments);
    CHECK(result.status == 3);
    CHECK_MESSAGE(contains(result.err, message), result.err);
  };
  refused(torus + " --band 0.1 --vtk " + file, "--vtk says nothing without --grid");
  refused(torus + " --grid 5x5x5 --vtk " + folder.file("v.vtk"), "name it .vti");
  refused(torus + " --grid 5x1x5 --vtk " + file, "at least two points");
  refused(examples + "mlp_2_10_10_2.onnx --scalar logits[0] --grid 5x5 --vtk " + file, "three coordinates");
}
