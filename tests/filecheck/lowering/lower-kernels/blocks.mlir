// RUN: openinfer-opt %s -p 'lower-kernels{only=blocks},cse' --split-input-file | filecheck %s

// Two blocks in a row: the scale as two bytes, then the codes of both halves.
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @pack(%x: memref<?x64xf32>, %y: memref<?x68xi8>) {
    nn.quantize_blocks(%x) outs(%y) {block = "q8_0"} : (memref<?x64xf32>, memref<?x68xi8>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @pack
// CHECK:         scf.for %row = %c0 to {{%\S+}} step %c1 {
// CHECK:           scf.for %block = %c0 to %c2{{\S*}} step %c1 {
// CHECK:             arith.divf
// CHECK:             vector.store {{%\S+}}, %y[%row, {{%\S+}}] : memref<?x68xi8>, vector<2xi8>
// CHECK-COUNT-2:     vector.store {{%\S+}}, %y[%row, {{%\S+}}] : memref<?x68xi8>, vector<16xi8>
// CHECK:         } {openinfer.parallel}
// CHECK-NOT:     nn.quantize_blocks

// -----

builtin.module attributes {openinfer.target = "avx2"} {
  func.func @unpack(%x: memref<?x68xi8>, %y: memref<?x64xf32>) {
    nn.dequantize_blocks(%x) outs(%y) {block = "q8_0"} : (memref<?x68xi8>, memref<?x64xf32>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @unpack
// CHECK:         vector.load %x[%row, {{%\S+}}] : memref<?x68xi8>, vector<2xi8>
// CHECK-COUNT-2: vector.store {{%\S+}}, %y[%row, {{%\S+}}] : memref<?x64xf32>, vector<16xf32>
// CHECK:         } {openinfer.parallel}

// -----

// Rows of floats are not their business.
builtin.module attributes {openinfer.target = "avx2"} {
  func.func @other(%x: memref<2x64xf32>, %y: memref<2x96xi8>) {
    nn.quantize_rows(%x) outs(%y) : (memref<2x64xf32>, memref<2x96xi8>) -> ()
    func.return
  }
}
// CHECK-LABEL: func.func @other
// CHECK-NEXT:    nn.quantize_rows
