// A neural implicit function in VTK: its signs on a grid as a volume, and the surface between them.
//   volume_for_vtk MODEL.onnx|MODEL.npz [VOLUME.vti]
// With a file it reads one that `driftbound certify MODEL --grid 33x33x33 --vtk VOLUME.vti` wrote, and compares.
#include <vtkCellData.h>
#include <vtkFeatureEdges.h>
#include <vtkFlyingEdges3D.h>
#include <vtkPointData.h>
#include <vtkPolyData.h>
#include <vtkXMLImageDataReader.h>

#include <cmath>
#include <cstdio>
#include <exception>

#include "driftbound/adapters/vtk.hpp"
#include "driftbound/model/load.hpp"

namespace adapter = driftbound::vtk;  // VTK has a namespace vtk of its own

namespace {

constexpr int per_side = 33;

/// Whether two arrays hold numbers of the same signs: values near the exact ones may differ in their last bits.
bool have_same_signs(vtkDataArray* a, vtkDataArray* b) {
  if (a == nullptr || b == nullptr || a->GetNumberOfTuples() != b->GetNumberOfTuples()) return false;
  for (vtkIdType i = 0; i < a->GetNumberOfTuples(); ++i) {
    const double x = a->GetTuple1(i), y = b->GetTuple1(i);
    if ((x < 0.0) != (y < 0.0) || (x > 0.0) != (y > 0.0)) return false;
  }
  return true;
}

bool have_same_numbers(vtkDataArray* a, vtkDataArray* b) {
  if (a == nullptr || b == nullptr || a->GetNumberOfTuples() != b->GetNumberOfTuples()) return false;
  for (vtkIdType i = 0; i < a->GetNumberOfTuples(); ++i)
    if (a->GetTuple1(i) != b->GetTuple1(i)) return false;
  return true;
}

int show(const char* model, const char* file) {
  const driftbound::SignField field(driftbound::load_model(model));
  const auto volume = adapter::image(field, {per_side, per_side, per_side});
  // Cells in which the sign is certain everywhere: points in them need no evaluation.
  driftbound::OctreeOptions options;
  options.depth = 6;
  const driftbound::Octree tree = driftbound::Octree::build(field.graph(), field.target(), options);
  const auto by_tree = adapter::image(field, {per_side, per_side, per_side}, &tree);

  const auto surface = vtkSmartPointer<vtkFlyingEdges3D>::New();
  surface->SetInputData(volume);
  surface->SetValue(0, 0.0);
  const auto open = vtkSmartPointer<vtkFeatureEdges>::New();
  open->SetInputConnection(surface->GetOutputPort());
  open->BoundaryEdgesOn();
  open->NonManifoldEdgesOn();
  open->FeatureEdgesOff();
  open->ManifoldEdgesOff();
  open->Update();
  std::printf("%lld triangles, %lld edges that are not in two\n",
              static_cast<long long>(surface->GetOutput()->GetNumberOfPolys()),
              static_cast<long long>(open->GetOutput()->GetNumberOfLines()));

  const auto function = vtkSmartPointer<adapter::ImplicitNetwork>::New();
  function->SetField(field);
  double point[3] = {0.5, 0.0, 0.0};
  std::printf("f(0.5, 0, 0) is %s\n", function->EvaluateFunction(point) < 0.0 ? "negative" : "not negative");
  // The same with the tree, for all points of the volume.
  function->SetField(field, &tree);
  const auto points = vtkSmartPointer<vtkDoubleArray>::New(), sampled = vtkSmartPointer<vtkDoubleArray>::New();
  points->SetNumberOfComponents(3);
  for (vtkIdType i = 0; i < volume->GetNumberOfPoints(); ++i) points->InsertNextTuple(volume->GetPoint(i));
  function->EvaluateFunction(points, sampled);
  const bool is_same_function = have_same_signs(sampled, volume->GetPointData()->GetArray("value"));

  const auto same_arrays = [&](vtkImageData* other) {
    bool is_same = true;
    for (const char* name : {"value", "sign"})
      is_same &= have_same_signs(other->GetPointData()->GetArray(name), volume->GetPointData()->GetArray(name));
    return is_same &&
           have_same_numbers(other->GetCellData()->GetArray("corners"), volume->GetCellData()->GetArray("corners"));
  };
  const auto surface_by_tree = vtkSmartPointer<vtkFlyingEdges3D>::New();
  surface_by_tree->SetInputData(by_tree);
  surface_by_tree->SetValue(0, 0.0);
  surface_by_tree->Update();
  const bool is_same_surface =
      surface_by_tree->GetOutput()->GetNumberOfPolys() == surface->GetOutput()->GetNumberOfPolys();
  const bool is_same_by_tree = same_arrays(by_tree) && is_same_surface && is_same_function;
  std::printf("with a tree: %s\n", is_same_by_tree ? "the same signs" : "OTHER SIGNS");
  vtkDataArray* const states = volume->GetCellData()->GetArray("state");
  long long certain = 0;
  for (vtkIdType i = 0; i < states->GetNumberOfTuples(); ++i) certain += std::abs(states->GetTuple1(i)) == 1.0 ? 1 : 0;
  std::printf("%lld of %lld cells have one sign, certified\n", certain,
              static_cast<long long>(states->GetNumberOfTuples()));
  if (!is_same_by_tree) return 1;
  if (file == nullptr) return 0;
  const auto reader = vtkSmartPointer<vtkXMLImageDataReader>::New();
  reader->SetFileName(file);
  reader->Update();
  const bool is_same = same_arrays(reader->GetOutput()) &&
                       have_same_numbers(reader->GetOutput()->GetCellData()->GetArray("state"), states);
  std::printf("%s holds %s\n", file, is_same ? "the same signs" : "OTHER SIGNS");
  return is_same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2 || argc == 3) return show(argv[1], argc == 3 ? argv[2] : nullptr);
    std::fprintf(stderr, "volume_for_vtk MODEL [VOLUME.vti]\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "volume_for_vtk: %s\n", error.what());
  }
  return 1;
}
