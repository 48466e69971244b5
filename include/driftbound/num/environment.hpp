#pragma once

namespace driftbound {

/// Checks that the calling thread rounds to nearest and neither flushes subnormal results (FTZ)
/// nor reads subnormal operands as zero (DAZ). Every certified entry point, and every worker
/// thread it starts, calls this first.
/// Throws:    UnsoundEnvironment, naming what is wrong and how to undo it
void require_sound_environment();

}  // namespace driftbound
