#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "driftbound/trace/arithmetic.hpp"
#include "support/json_schema.hpp"
#include "support/run_program.hpp"
#include "support/text.hpp"

using namespace driftbound;
using driftbound::test::TemporaryFolder;

namespace {

const std::string probe_schema = std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/probe-1.json";

nlohmann::json probed(const std::string& options, int status) {
  const ProgramResult result = run_program("probe --backend cpu " + options + " --json -");
  CHECK_MESSAGE(result.status == status, result.err);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  CHECK(schema_errors(probe_schema, json) == "");
  return json;
}

}  // namespace

TEST_CASE("probe finds the declared order of the CPU, for every batch size, and contradicts another one") {
  const nlohmann::json json = probed("--shape 1,100,3 --batch 1,16,64 --order blocked:8", 0);
  REQUIRE(json["shapes"].size() == 3);
  CHECK(json["agrees"] == true);
  CHECK(json["shapes"][2]["findings"]["order"] == "blocked:8");
  CHECK(json["shapes"][2]["findings"]["classes"][0]["tree"]["nodes"].size() == 99);
  const nlohmann::json other = probed("--shape 16,100,3 --order blocked:8 --expect blocked:16", 1);
  CHECK(other["agrees"] == false);
  CHECK(contains(other["shapes"][0]["differences"][0].get<std::string>(), "declared as blocked:16"));
  CHECK(probed("--shape 16,100,3 --order sequential --expect sequential+fma", 1)["agrees"] == false);
}

TEST_CASE("probe finds the declared order of a simulated matrix unit, and contradicts another one") {
  const TemporaryFolder folder;
  const std::string simulated =
      "probe --backend sim --device h100 --arithmetic tf32 --order split-k:4 --shape 64,512,2";
  for (const std::string expected : {"", " --expect split-k:4"}) {
    const ProgramResult result = run_program(simulated + expected + " --export " + folder.file("a.json"));
    CHECK(result.status == 0);
    CHECK(contains(result.out, "AS DECLARED, 512 terms: 4 blocks"));
    const ArithmeticModel model = arithmetic_from_json(test::read_file(folder.file("a.json")));
    CHECK(to_string(model.order) == "split-k:4");
    CHECK(model.tensor_core.value().block == 8);
  }
  const ProgramResult result = run_program(simulated + " --expect split-k:8");
  CHECK(result.status == 1);
  CHECK(contains(result.out, "declared as split-k:8 and found to be blocked:128"));
}

TEST_CASE("probe finds the lanes of simulated float32 sums, of products and of rows") {
  for (const std::string what : {"--shape 64,300,2", "--sum --shape 64,300"}) {
    const ProgramResult result =
        run_program("probe --backend sim --device h100 --arithmetic fp32 --order lanes:32x1/halves " + what);
    CHECK(result.status == 0);
    CHECK_MESSAGE(contains(result.out, "AS DECLARED, 300 terms: 32 chains"), result.out);
  }
}

TEST_CASE("probe exports the arithmetic, draws the tree and repeats calls") {
  const TemporaryFolder folder;
  const ProgramResult result =
      run_program("probe --backend cpu --arithmetic bf16 --order pairwise --shape 16,20,2 --export " +
                  folder.file("a.json") + " --html " + folder.file("p.html") + " --csv " + folder.file("p.csv"));
  CHECK(result.status == 0);
  CHECK(contains(result.out, "AS DECLARED, 20 terms added pairwise"));
  const ArithmeticModel model = arithmetic_from_json(test::read_file(folder.file("a.json")));
  CHECK(model.input == FormatId::bf16);
  CHECK(to_string(model.order) == "pairwise");
  CHECK(model.evidence == Evidence::measured);
  CHECK(contains(test::read_file(folder.file("p.html")), "aria-label=\"summation tree\""));
  CHECK(contains(test::read_file(folder.file("p.csv")), "pairwise"));
  const nlohmann::json repeated = probed("--shape 16,20,2 --determinism 3", 0);
  CHECK(repeated["shapes"][0]["repeated"]["differing_calls"] == 0);
}

TEST_CASE("probe finds the order of the program's own sums, and repeats them") {
  const nlohmann::json found = probed("--sum --shape 16,100 --order blocked:8", 0);
  CHECK(found["agrees"] == true);
  CHECK(found["shapes"][0]["findings"]["order"] == "blocked:8");
  CHECK(probed("--sum --shape 16,100 --order blocked:8 --expect pairwise", 1)["agrees"] == false);
  const nlohmann::json repeated = probed("--sum --shape 16,100 --determinism 4", 0);
  CHECK(repeated["shapes"][0]["repeated"]["calls"] == 4);
  CHECK(repeated["shapes"][0]["repeated"]["differing_calls"] == 0);
  const ProgramResult simulated =
      run_program("probe --backend sim --device h100 --arithmetic tf32 --order split-k:4 --sum --shape 16,100");
  CHECK(simulated.status == 0);
  CHECK(contains(simulated.out, "AS DECLARED, 100 terms: 4 blocks"));
}

TEST_CASE("the trees of OpenBLAS, where it is installed, give its bits") {
  const ProgramResult result = run_program("probe --blas libopenblas.so.0 --shape 64,300,20 --json -");
  if (result.status == 4) {
    MESSAGE("not installed: " << result.err);
    return;
  }
  CHECK(result.status == 0);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  CHECK(schema_errors(probe_schema, json) == "");
  CHECK(json["shapes"][0]["findings"]["confirmed"] == true);
}

TEST_CASE(
    "an interrupted probe ends at the next call with status 130, and refuses what takes too long before it begins") {
  const std::string long_probe =
      "probe --backend cpu --shape 1,16384,1 --order pairwise --arithmetic fp32 --calls 1000000 --seconds 3600";
  for (const char* signal : {"INT", "TERM"}) {
    const ProgramResult result =
        run_program(long_probe, std::string("timeout --foreground -s ") + signal + " -k 60 1 ");
    CHECK(result.status == 124);  // timeout's own, as the program did not have to be killed
    CHECK_MESSAGE(contains(result.err, "interrupted; nothing was written"), result.err);
  }
  const ProgramResult refused =
      run_program("probe --backend sim --device h100 --arithmetic fp16 --shape 4,17000,1 --calls 1000");
  CHECK(refused.status == 3);
  CHECK_MESSAGE(contains(refused.err, "take as many columns as rows"), refused.err);
}

TEST_CASE("probe says what it cannot do") {
  const auto refused = [](const std::string& options, int status, const std::string& reason) {
    const ProgramResult result = run_program("probe " + options);
    CHECK(result.status == status);
    CHECK_MESSAGE(contains(result.err, reason), result.err);
  };
  refused("--blas libno-such-library.so", 4, "cannot be loaded");
  refused("--blas libm.so.6", 4, "no function cblas_sgemm");
  refused("--blas libm.so.6 --exchange", 3, "name one kernel");
  refused("--blas libm.so.6 --order pairwise", 3, "say its order by --expect");
  refused("--exchange", 3, "ended after 0 of 2048 numbers");
  refused("--shape 3,4", 3, "give m,k,n");
  refused("--shape 3,4,x", 3, "'x' is no number from 1 on");
  refused("--batch 0", 3, "'0' is no number from 1 on");
  refused("--arithmetic fp64", 3, "float32 numbers");
  refused("--backend cpu --expect height:3", 3, "which sums are formed");
  refused("--backend cpu --batch 1,2 --export a.json", 3, "one shape");
  refused("--sum --shape 4,5 --blas libm.so.6", 3, "products alone");
  refused("--sum --shape 4,5,6", 3, "give m,k of m rows");
  refused("--determinism 1", 3, "--determinism");
  refused("--backend cpu --arithmetic fp8_e4m3 --shape 4,1024,4", 3, "too few powers of two");
}
