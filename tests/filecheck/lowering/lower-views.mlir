// RUN: openinfer-opt %s -p lower-views --split-input-file | filecheck %s

// A view of a buffer of the arena is another view of the arena.
// CHECK-LABEL: func.func @of_the_arena
// CHECK: memref.view %arena[%o][%n] : memref<?xi8> to memref<?x4xf32>
// CHECK-NEXT: %[[V:.*]] = memref.view %arena[%o][%m] : memref<?xi8> to memref<?xf32>
// CHECK-NEXT: "test.op"(%[[V]])
func.func @of_the_arena(%arena: memref<?xi8>, %o: index, %n: index, %m: index) {
  %a = memref.view %arena[%o][%n] : memref<?xi8> to memref<?x4xf32>
  %v = nn.view %a[%m] : memref<?x4xf32> to memref<?xf32>
  "test.op"(%v) : (memref<?xf32>) -> ()
  func.return
}
// -----
// CHECK-LABEL: func.func @flattened
// CHECK-NEXT: %[[F:.*]] = memref.collapse_shape %x
// CHECK-SAME: memref<?x4xf32> into memref<?xf32>
// CHECK-NEXT: "test.op"(%[[F]])
func.func @flattened(%x: memref<?x4xf32>, %n: index) {
  %v = nn.view %x[%n] : memref<?x4xf32> to memref<?xf32>
  "test.op"(%v) : (memref<?xf32>) -> ()
  func.return
}
// -----
// CHECK-LABEL: func.func @cut_anew
// CHECK-NEXT: %[[F:.*]] = memref.collapse_shape %x
// CHECK-SAME: memref<2x8xf32> into memref<16xf32>
// CHECK-NEXT: memref.expand_shape %[[F]]
// CHECK-SAME: memref<16xf32> into memref<4x4xf32>
func.func @cut_anew(%x: memref<2x8xf32>) {
  %v = nn.view %x[] : memref<2x8xf32> to memref<4x4xf32>
  "test.op"(%v) : (memref<4x4xf32>) -> ()
  func.return
}
// -----
// A scalar and back.
// CHECK-LABEL: func.func @scalars
// CHECK-NEXT: memref.collapse_shape %x
// CHECK-SAME: memref<1xf32> into memref<f32>
// CHECK: memref.expand_shape
// CHECK-SAME: memref<f32> into memref<1xf32>
func.func @scalars(%x: memref<1xf32>, %y: memref<f32>) {
  %v = nn.view %x[] : memref<1xf32> to memref<f32>
  %w = nn.view %y[] : memref<f32> to memref<1xf32>
  "test.op"(%v, %w) : (memref<f32>, memref<1xf32>) -> ()
  func.return
}
// -----
// Other views are left alone.
// CHECK-LABEL: func.func @bytes
// CHECK-NEXT: memref.view %V[%o][] : memref<64xi8> to memref<4x4xf32>
// CHECK-NEXT: "test.op"
func.func @bytes(%V: memref<64xi8>, %o: index) {
  %v = memref.view %V[%o][] : memref<64xi8> to memref<4x4xf32>
  "test.op"(%v) : (memref<4x4xf32>) -> ()
  func.return
}
