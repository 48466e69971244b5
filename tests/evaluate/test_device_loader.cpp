#include <doctest/doctest.h>

#include <string>

#include "driftbound/evaluate/cuda.hpp"
#include "driftbound/num/errors.hpp"
#include "evaluate/device/interface.h"
#include "evaluate/device/loader.hpp"
#include "support/environment.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

namespace {

using namespace driftbound;
using namespace driftbound::test;

const std::string broken = DRIFTBOUND_BROKEN_MODULES;

std::string message_of_load(const std::vector<std::filesystem::path>& folders) {
  try {
    device::load_cuda_module(folders);
  } catch (const NotAvailable& error) {
    return error.what();
  }
  return "loaded";
}

TEST_CASE(
    "modules are looked for in the folders of the variable, beside the program, and where it would be installed") {
  const ScopedVariable variable("DRIFTBOUND_PLUGIN_PATH", "/first:/second::third");
  const auto folders = device::module_folders();
  REQUIRE(folders.size() == 5);
  CHECK(folders[0] == "/first");
  CHECK(folders[1] == "/second");
  CHECK(folders[2] == std::filesystem::current_path() / "third");
  CHECK(folders[3] == std::filesystem::canonical("/proc/self/exe").parent_path() / "driftbound-modules");
  CHECK(folders[4].filename() == "driftbound-modules");
  CHECK(std::filesystem::relative(folders[4], folders[3].parent_path()).begin()->string() == "..");
}

TEST_CASE("without a module the message lists the folders and says what to do") {
  const TemporaryFolder empty;
  const std::string message = message_of_load({empty.path(), "/no/such/folder"});
  CHECK(contains(message, empty.path().string()));
  CHECK(contains(message, "/no/such/folder"));
  CHECK(contains(message, "-DDRIFTBOUND_CUDA=ON"));
  CHECK(contains(message, "--trace"));
}

TEST_CASE("a file that is no library is named with the loader's reason") {
  const TemporaryFolder folder;
  folder.write(device::cuda_module_file, "this is no library");
  const std::string message = message_of_load({folder.path()});
  CHECK(contains(message, folder.file(device::cuda_module_file)));
  CHECK(contains(message, "cannot be loaded"));
}

TEST_CASE("a library without the entry function is no module") {
  const std::string message = message_of_load({broken + "/no_entry"});
  CHECK(contains(message, broken + "/no_entry"));
  CHECK(contains(message, "has no function driftbound_device_entry"));
}

TEST_CASE("a module of another interface is refused") {
  const std::string message = message_of_load({broken + "/other_version"});
  CHECK(contains(message, "another interface than version " + std::to_string(DRIFTBOUND_DEVICE_INTERFACE)));
  CHECK(contains(message, "from the same sources"));
}

TEST_CASE("the first folder with a module decides, and a module is loaded once") {
  const TemporaryFolder empty;
  CHECK(message_of_load({broken + "/no_entry", DRIFTBOUND_HOST_MODULE_FOLDER}) != "loaded");
  const auto& once = device::load_cuda_module({empty.path(), DRIFTBOUND_HOST_MODULE_FOLDER});
  CHECK(&once == &device::load_cuda_module({DRIFTBOUND_HOST_MODULE_FOLDER}));
}

TEST_CASE("cuda_evaluator without a module or a device is not available") {
  {
    const ScopedVariable path("DRIFTBOUND_PLUGIN_PATH", "/no/such/folder");
    CHECK_THROWS_WITH_AS(cuda_evaluator({}), doctest::Contains("/no/such/folder"), NotAvailable);
  }
  const ScopedVariable path("DRIFTBOUND_PLUGIN_PATH", DRIFTBOUND_HOST_MODULE_FOLDER);
  CudaOptions second;
  second.device = 1;
  CHECK_THROWS_WITH_AS(cuda_evaluator(second), doctest::Contains("no CUDA device 1"), NotAvailable);
  const ScopedVariable fault("DRIFTBOUND_HOST_MODULE_UNAVAILABLE", "the driver is too old");
  CHECK_THROWS_WITH_AS(cuda_evaluator({}), doctest::Contains("the driver is too old"), NotAvailable);
}

}  // namespace
