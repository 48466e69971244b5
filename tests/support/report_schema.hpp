#pragma once

#include <string>

inline const std::string schema_file = std::string(DRIFTBOUND_SOURCE_DIR) + "/docs/schema/report-1.json";
