#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/document.hpp"
#include "analysis/given_signs.hpp"
#include "analysis/point_source.hpp"
#include "analysis/segment_report.hpp"
#include "analysis/sign_file.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/region/octree.hpp"

namespace driftbound::analysis {

struct CertifyOptions {
  SignFile* signs = nullptr;                             ///< where signs go, continued where it holds some; may be null
  const GivenSigns* given = nullptr;                     ///< values that may decide points first; may be null
  const Octree* octree = nullptr;                        ///< whose certain cells decide points first; may be null
  bool fail_at_limit = false;                            ///< an undecided point is an exception
  std::function<void(std::span<const PointSign>)> keep;  ///< called with what is known of every block, in order
  /// Called between blocks with points done and all; false ends the work.
  std::function<bool(std::int64_t, std::int64_t)> progress;
};

/// What was certified, with all runs that were resumed.
struct Certification {
  SignProgress done;
  std::int64_t requested = 0;
  bool interrupted() const { return done.counts.points < requested; }
};

/// Certifies the signs of all points, block by block: memory of one block. A file of signs is finished, or, where the
/// work was ended, left with a checkpoint.
/// Throws:    UndecidedSign naming the point, with `fail_at_limit`; what the points, the field and the file throw. The
///            file of signs is discarded unless it is the file that fails
Certification certify(const SignField& field, const PointSource& points, const CertifyOptions& options);

/// A certification and what it was of.
struct CertifyReport {
  std::string command = {}, date = {}, version = {};
  std::string model_file = {}, model_sha256 = {};
  std::string points = {}, scalar = {}, policy = {};
  double iso = 0.0;
  int max_bits = 0, threads = 0;
  std::string signs_file = {};   ///< empty: none
  std::string octree_file = {};  ///< of cells whose sign is certain; empty: none
  std::string values_file = {};  ///< of another program's values; empty: none
  std::string values_arithmetic = {}, values_guarantee = {}, values_condition = {};
  Certification certification = {};
  std::optional<SegmentReport> segment = {};
};

/// Points that are undecided, or treated as if they were decided.
std::int64_t open_points(const SignStatistics& counts);

/// The report as a document: "CERTIFIED: the sign of … at all 262144 points of …: 3000 negative, …", a line per stage,
/// and on a segment the zeros there are and those that the run shows. JSON has the schema driftbound/certify/1
/// (docs/schema/certify-1.json).
Document document_of(const CertifyReport& report);

}  // namespace driftbound::analysis
