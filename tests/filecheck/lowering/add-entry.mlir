// RUN: openinfer-opt %s -p 'add-entry{symbol=step}' | filecheck %s

llvm.func @step(%x: !llvm.ptr, %n: i64, %flag: i1, %scale: f32) -> f32 {
  llvm.return %scale : f32
}
llvm.func @other() {
  llvm.return
}

// CHECK:       llvm.func internal @step(
// CHECK:       llvm.func @other()
// CHECK:       llvm.func @openinfer_step(%frame{{\S*}}: !llvm.ptr) {
// CHECK-NEXT:    %x{{\S*}} = llvm.load %frame{{\S*}} {alignment = 8 : i64} : !llvm.ptr -> !llvm.ptr
// CHECK-NEXT:    [[P1:%\S+]] = llvm.getelementptr inbounds %frame{{\S*}}[8] : (!llvm.ptr) -> !llvm.ptr, i8
// CHECK-NEXT:    %n{{\S*}} = llvm.load [[P1]] {alignment = 8 : i64} : !llvm.ptr -> i64
// CHECK-NEXT:    [[P2:%\S+]] = llvm.getelementptr inbounds %frame{{\S*}}[16] : (!llvm.ptr) -> !llvm.ptr, i8
// CHECK-NEXT:    [[BYTE:%\S+]] = llvm.load [[P2]] {alignment = 8 : i64} : !llvm.ptr -> i8
// CHECK-NEXT:    [[FLAG:%\S+]] = llvm.trunc [[BYTE]] : i8 to i1
// CHECK-NEXT:    [[P3:%\S+]] = llvm.getelementptr inbounds %frame{{\S*}}[24] : (!llvm.ptr) -> !llvm.ptr, i8
// CHECK-NEXT:    %scale{{\S*}} = llvm.load [[P3]] {alignment = 8 : i64} : !llvm.ptr -> f32
// CHECK-NEXT:    [[R:%\S+]] = llvm.call @step(%x{{\S*}}, %n{{\S*}}, [[FLAG]], %scale{{\S*}}) : (!llvm.ptr, i64, i1, f32) -> f32
// CHECK-NEXT:    [[P4:%\S+]] = llvm.getelementptr inbounds %frame{{\S*}}[32] : (!llvm.ptr) -> !llvm.ptr, i8
// CHECK-NEXT:    llvm.store [[R]], [[P4]] {alignment = 8 : i64} : f32, !llvm.ptr
// CHECK-NEXT:    llvm.return
// CHECK-NOT:   @openinfer_other
