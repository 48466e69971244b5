#include "evaluate/device/loader.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>

#include "driftbound/num/errors.hpp"

namespace driftbound::device {
namespace {

namespace fs = std::filesystem;

constexpr const char* path_variable = "DRIFTBOUND_PLUGIN_PATH";
constexpr const char* entry_name = "driftbound_device_entry";

std::vector<fs::path> folders_in(std::string_view list) {
  std::vector<fs::path> folders;
  while (!list.empty()) {
    const std::size_t colon = list.find(':');
    const std::string_view folder = list.substr(0, colon);
    if (!folder.empty()) folders.push_back(fs::absolute(folder));
    if (colon == std::string_view::npos) break;
    list.remove_prefix(colon + 1);
  }
  return folders;
}

/// The shared library that contains this function, or the program where it is linked into that; empty where the
/// system does not tell.
fs::path own_file() {
  Dl_info info{};
  link_map* loaded = nullptr;
  if (dladdr1(reinterpret_cast<const void*>(&own_file), &info, reinterpret_cast<void**>(&loaded), RTLD_DL_LINKMAP) ==
          0 ||
      loaded == nullptr) {
    return {};
  }
  const bool in_program = loaded->l_name == nullptr || *loaded->l_name == '\0';
  std::error_code failed;
  const fs::path file = fs::canonical(in_program ? "/proc/self/exe" : loaded->l_name, failed);
  return failed ? fs::path{} : file;
}

std::string sentence_of_missing(const std::vector<fs::path>& folders) {
  std::string places;
  for (const fs::path& folder : folders) places += (places.empty() ? "" : ", ") + folder.string();
  return "there is no CUDA module " + std::string(cuda_module_file) +
         (places.empty() ? "" : " (looked for in " + places + ")") +
         ": build driftbound with -DDRIFTBOUND_CUDA=ON where the CUDA toolkit is installed, or record a trace on a "
         "machine with a GPU and pass it with --trace";
}

std::string rebuild(const fs::path& file) {
  return "; build " + file.filename().string() + " and driftbound from the same sources, or remove it";
}

const driftbound_device_functions& load(const fs::path& file) {
  const std::string name = file.string();
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    throw NotAvailable("the CUDA module " + name +
                       " cannot be loaded: " + (reason == nullptr ? "no reason given" : reason));
  }
  void* const symbol = dlsym(library, entry_name);
  if (symbol == nullptr) {
    throw NotAvailable("the CUDA module " + name + " is none: it has no function " + entry_name + rebuild(file));
  }
  const auto entry = reinterpret_cast<driftbound_device_entry_function>(symbol);
  const driftbound_device_functions* const functions = entry(DRIFTBOUND_DEVICE_INTERFACE);
  if (functions == nullptr || functions->interface_version != DRIFTBOUND_DEVICE_INTERFACE) {
    throw NotAvailable("the CUDA module " + name + " has another interface than version " +
                       std::to_string(DRIFTBOUND_DEVICE_INTERFACE) + " of this driftbound" + rebuild(file));
  }
  return *functions;
}

}  // namespace

std::vector<fs::path> module_folders() {
  const char* const listed = std::getenv(path_variable);
  std::vector<fs::path> folders = folders_in(listed == nullptr ? "" : listed);
  const fs::path file = own_file();
  if (file.empty()) return folders;
  const fs::path beside = file.parent_path() / "driftbound-modules";
  const fs::path installed = (file.parent_path() / DRIFTBOUND_LIB_FROM_BIN / "driftbound-modules").lexically_normal();
  folders.push_back(beside);
  if (installed != beside) folders.push_back(installed);
  return folders;
}

const driftbound_device_functions& load_cuda_module(const std::vector<fs::path>& folders) {
  static std::mutex mutex;
  static std::map<fs::path, const driftbound_device_functions*> loaded;
  for (const fs::path& folder : folders) {
    std::error_code absent;
    const fs::path file = fs::canonical(folder / cuda_module_file, absent);
    if (absent) continue;
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = loaded.find(file);
    if (found != loaded.end()) return *found->second;
    const driftbound_device_functions& functions = load(file);
    loaded.emplace(file, &functions);
    return functions;
  }
  throw NotAvailable(sentence_of_missing(folders));
}

}  // namespace driftbound::device
