#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "support/json_schema.hpp"
#include "support/run_program.hpp"
#include "support/text.hpp"

using driftbound::test::TemporaryFolder;

namespace {

const std::string models = std::string(DRIFTBOUND_SOURCE_DIR) + "/examples/models/";
const std::string sphere = models + "sphere_cut_sdf_relu.onnx", siren = models + "siren.onnx";

nlohmann::json json_of(const std::string& verb, const std::string& arguments) {
  const ProgramResult result = run_program(verb + " " + arguments + " --json -");
  CHECK_MESSAGE(result.status == 0, result.err);
  CHECK(result.err == "");
  const nlohmann::json json = nlohmann::json::parse(result.out);
  CHECK(schema_errors(std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/" + verb + "-1.json", json) == "");
  return json;
}

void check_refused(const std::string& arguments, const std::string& reason) {
  const ProgramResult result = run_program(arguments);
  CHECK(result.status == 3);
  CHECK_MESSAGE(contains(result.err, reason), result.err);
}

}  // namespace

TEST_CASE("octree writes a tree, continues it, and refuses that of another network") {
  const TemporaryFolder folder;
  const std::string tree = folder.file("s.oct"), whole = folder.file("w.oct");
  const nlohmann::json first = json_of("octree", sphere + " --depth 3 -o " + tree);
  CHECK(first["complete"] == true);
  CHECK(first["cells_before"] == 0);
  const nlohmann::json second = json_of("octree", sphere + " --depth 5 --resume --threads 2 -o " + tree);
  CHECK(second["cells_before"] == first["cells"]);
  CHECK(second["certain_share"].get<double>() > 0.8);
  json_of("octree", sphere + " --depth 5 -o " + whole);
  CHECK(driftbound::test::read_file(tree) == driftbound::test::read_file(whole));
  const nlohmann::json enough = json_of("octree", sphere + " --share 0.5 -o " + whole);
  CHECK(enough["certain_share"].get<double>() >= 0.5);
  CHECK(enough["cells"] < second["cells"]);
  check_refused("octree " + siren + " --resume -o " + tree, "of another network");
  check_refused("octree " + sphere + " --resume --iso 0.5 -o " + tree, "of another network, target or iso value");
  check_refused("octree " + sphere + " --resume --box 0:1 -o " + tree, "is of another --box");
  check_refused("octree " + sphere + " --resume -o " + folder.file("none.oct"), "is not there");
  check_refused("octree " + sphere + " --box 1:0 -o " + whole, "--box");
  check_refused("octree " + sphere + " -o " + folder.file("no/such/folder.oct"), "folder.oct");
  check_refused("octree " + models + "../vision/vit_tiny.onnx -o " + whole, "scalar");
}

TEST_CASE("octree says that the depth does not reach the share asked for, and what to do") {
  const TemporaryFolder folder;
  const std::string tree = folder.file("s.oct"), asked = "octree " + sphere + " --share 0.9 -o " + tree;
  const ProgramResult less = run_program(asked + " --depth 4");
  CHECK(less.status == 1);
  CHECK_MESSAGE(less.out.starts_with("INCOMPLETE: the sign of sdf is certain in "), less.out);
  CHECK_MESSAGE(contains(less.out, "90 % were asked for, and depth 4 is reached"), less.out);
  CHECK_MESSAGE(contains(less.out, "--depth 5 --resume"), less.out);
  CHECK(less.out.find("of the volume", less.out.find("of the volume") + 1) == std::string::npos);  // said once
  const ProgramResult as_json = run_program(asked + " --depth 4 --json -");
  CHECK(as_json.status == 1);
  CHECK(nlohmann::json::parse(as_json.out)["complete"] == false);
  const ProgramResult enough = run_program(asked + " --depth 8 --resume");
  CHECK(enough.status == 0);
  CHECK(enough.out.starts_with("COMPLETE"));
}

TEST_CASE("the picture of docs/regions.md is what render draws") {
  const TemporaryFolder folder;
  const std::string picture = folder.file("torus.png");
  const nlohmann::json json = json_of("render", models + "torus_sdf_softplus.onnx --size 256x256 -o " + picture);
  CHECK(json["hits"] == 12'907);
  CHECK(json["misses"] == 52'629);
  // Colours may differ in their last bit between processors: normals are middles of enclosures.
  const std::size_t drawn = driftbound::test::read_file(picture).size();
  const std::size_t shown =
      driftbound::test::read_file(std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/pictures/torus_sdf_softplus.png").size();
  CHECK(shown < 60'000);
  CHECK(std::max(drawn, shown) - std::min(drawn, shown) < 1000);
}

TEST_CASE("octree and render name the function whose zeros count") {
  const TemporaryFolder folder;
  const auto said = [&](const std::string& arguments) { return run_program(arguments).out; };
  const std::string tree = sphere + " --depth 3 -o " + folder.file("s.oct"),
                    picture = sphere + " --depth 3 --size 8x8 -o " + folder.file("s.ppm");
  CHECK(contains(said("octree " + tree + " --iso 100"), "the sign of sdf - 100 is"));
  CHECK(contains(said("octree " + tree + " --iso=-0.25"), "the sign of sdf + 0.25 is"));
  const std::string rendered = said("render " + picture + " --iso 0.25");
  CHECK(contains(rendered, "64 of 64 pixels are certain of sdf - 0.25 = 0: "));
  CHECK(rendered.find("pixels", rendered.find("pixels") + 1) == std::string::npos);
}

TEST_CASE("a box in which cells tell no more than the whole is refused before all of them are evaluated") {
  const TemporaryFolder folder;
  const std::string box = siren + " --box=3e38:3.3e38 -o ";
  check_refused("octree " + box + folder.file("s.oct"), "octree: in 32768 of 32768 cells hardly more is known");
  check_refused("mesh " + box + folder.file("s.ply"),
                "cells hardly more is known of the values than over the whole box");
  CHECK(!std::filesystem::exists(folder.file("s.oct")));
  CHECK(!std::filesystem::exists(folder.file("s.ply")));
  CHECK(run_program("octree " + box + folder.file("s.oct") + " --depth 4").status == 0);
}

TEST_CASE("certify gives no verdict where its image cannot be written") {
  const TemporaryFolder folder;
  const std::string image = folder.file("v.vti");
  // Larger files cannot be written, as on a disk that gets full.
  const ProgramResult full =
      run_program("certify " + sphere + " --grid 20x20x20 --vtk " + image, "ulimit -f 16; trap '' XFSZ; ");
  CHECK(full.status == 3);
  CHECK(full.out == "");
  CHECK_MESSAGE(contains(full.err, "cannot be written"), full.err);
  CHECK(!std::filesystem::exists(image));
}

TEST_CASE("an option without a value behind its '=' does not take the next argument") {
  const TemporaryFolder folder;
  check_refused("octree " + siren + " --box= --depth 3 -o " + folder.file("s.oct"),
                "--box= has no value: write it right behind the '='");
  check_refused("certify " + siren + " --grid 3x3x3 --domain= --iso 0.5", "--domain= has no value");
}

TEST_CASE("render draws a picture whose pixels are certain") {
  const TemporaryFolder folder;
  const std::string tree = folder.file("s.oct"), picture = folder.file("s.ppm");
  const nlohmann::json built = json_of("render", sphere + " --depth 4 --size 40x30 -o " + picture);
  CHECK(built["hits"].get<int>() > 100);
  CHECK(built["misses"].get<int>() > 100);
  CHECK(built["hits"].get<int>() + built["misses"].get<int>() + built["undecided"].get<int>() == 1200);
  const std::string bytes = driftbound::test::read_file(picture);
  CHECK(bytes.substr(0, 13) == "P6\n40 30\n255\n");
  CHECK(bytes.size() == 13 + 3600);
  json_of("octree", sphere + " --depth 4 -o " + tree);
  json_of("render", sphere + " --octree " + tree + " --size 40x30 --threads 2 -o " + folder.file("t.ppm"));
  CHECK(driftbound::test::read_file(folder.file("t.ppm")) == bytes);
  json_of("render", sphere + " --octree " + tree + " --size 40x30 -o " + folder.file("t.png"));
  CHECK(driftbound::test::read_file(folder.file("t.png")).substr(1, 3) == "PNG");
  check_refused("render " + sphere + " -o " + folder.file("t.jpg"), ".png or .ppm");
  check_refused("render " + siren + " --octree " + tree + " -o " + picture, "of another network");
  check_refused("render " + sphere + " --size 40 -o " + picture, "is no size");
  check_refused("render " + sphere + " --eye 0,0,0 -o " + picture, "the eye is at the point that it looks at");
  check_refused("render " + sphere + " --eye 1,2 -o " + picture, "are not three numbers");
  check_refused("render " + sphere + " --eye nan,0,0 -o " + picture, "--eye: 'nan,0,0' are not three numbers");
  for (const std::string& command : {"render " + sphere + " -o " + picture, "octree " + sphere + " -o " + tree})
    check_refused(command + " --box=-1e39:1e39", "coordinate 0 of the domain goes beyond the largest float32 number");
}

TEST_CASE("certify asks a tree before it evaluates, and its signs are the same") {
  const TemporaryFolder folder;
  const std::string tree = folder.file("s.oct"), with = folder.file("with.npy"), without = folder.file("without.npy");
  json_of("octree", sphere + " --depth 6 -o " + tree);
  const nlohmann::json by_tree = json_of("certify", sphere + " --grid 20x20x20 --octree " + tree + " --signs " + with);
  json_of("certify", sphere + " --grid 20x20x20 --signs " + without);
  CHECK(driftbound::test::read_file(with) == driftbound::test::read_file(without));
  CHECK(by_tree["octree"] == tree);
  for (const nlohmann::json& stage : by_tree["stages"])
    if (stage["name"] == "given") CHECK(stage["decided"].get<int>() > 7000);
  check_refused("certify " + siren + " --grid 4x4x4 --octree " + tree, "of another network");
  check_refused("certify " + sphere + " --grid 4x4x4 --iso 0.5 --octree " + tree, "iso value");
  check_refused("certify " + sphere + " --grid 4x4x4 --octree " + folder.file("none.oct"), "none.oct");
  const std::string image = folder.file("f.vti");
  json_of("certify", sphere + " --grid 20x20x20 --octree " + tree + " --vtk " + image + " --signs " + with);
  CHECK(driftbound::test::read_file(with) == driftbound::test::read_file(without));
  CHECK(contains(driftbound::test::read_file(image), "WholeExtent=\"0 19 0 19 0 19\""));
}
