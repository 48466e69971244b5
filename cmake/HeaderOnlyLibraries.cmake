# nlohmann/json, fmt, CLI11 and doctest as plain headers in DRIFTBOUND_HEADERS, or else in the system's folders, under the
# names that their packages give them.
function(driftbound_header_only_library target header)
  string(MAKE_C_IDENTIFIER "DRIFTBOUND_HEADER_${header}" folder)
  find_path(${folder} ${header} HINTS "${DRIFTBOUND_HEADERS}")
  mark_as_advanced(${folder})
  if(NOT ${folder})
    message(FATAL_ERROR "${header} not found: pass -DDRIFTBOUND_HEADERS=FOLDER, as scripts/check_gpu.sh --pack gathers it")
  endif()
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} INTERFACE "${${folder}}")
endfunction()

driftbound_header_only_library(nlohmann_json::nlohmann_json nlohmann/json.hpp)
driftbound_header_only_library(fmt::fmt fmt/format.h)
driftbound_header_only_library(CLI11::CLI11 CLI/CLI.hpp)
driftbound_header_only_library(doctest::doctest doctest/doctest.h)
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
