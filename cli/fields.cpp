#include "cli/fields.hpp"

namespace driftbound::cli {

void add_field_options(CLI::App& app, FieldSettings& settings, const std::string& whose) {
  app.add_option("--scalar", settings.scalar, whose + ": OUTPUT[I] or OUTPUT[I]-OUTPUT[J] (default: the only output)");
  app.add_option("--iso", settings.iso_text, "f is the scalar minus this")->capture_default_str();
  app.add_option("--threads", settings.threads, "Threads (default: as many as there are cores)")
      ->check(CLI::Range(1, 1 << 16));
}

}  // namespace driftbound::cli
