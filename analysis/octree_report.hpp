#pragma once

#include <string>

#include "analysis/document.hpp"
#include "driftbound/region/octree.hpp"

namespace driftbound::analysis {

/// What `driftbound octree` has to say.
struct OctreeReport {
  std::string command, version, date, model_file, model_sha256, scalar, file;
  double iso = 0.0, seconds = 0.0;
  int depth = 0, threads = 1;
  double asked_share = 1.0;
  std::int64_t cells_before = 0;  ///< that a tree which is continued had
  Box domain;
  OctreeCounts counts;
  bool is_complete = false;       ///< the share asked for is certain; where that is 1, the depth is reached
  bool depth_is_reached = false;  ///< or the share
};

Document document_of(const OctreeReport& report);

}  // namespace driftbound::analysis
