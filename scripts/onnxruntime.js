// Runs ONNX models through ONNX Runtime, for scripts/check_onnxruntime.sh.
//   node onnxruntime.js suite LEVEL SUITE OUT         every case of a suite; outputs to OUT/CASE/SET/output_0.pb …
//   node onnxruntime.js trace LEVEL MODEL RUN OUT     the inputs of RUN (a trace of driftbound); every layer to OUT
//   node onnxruntime.js optimise LEVEL MODEL OUT      the model as the runtime optimises it
//   node onnxruntime.js values LEVEL MODEL INPUTS OUT the results of all nodes, by name; INPUTS has the model's inputs
// LEVEL is that of the graph's optimisation: disabled, basic, extended, all.
'use strict';
const fs = require('fs');
const path = require('path');
const ort = require(process.env.DRIFTBOUND_ONNXRUNTIME + '/node_modules/onnxruntime-node');

const options = level => ({graphOptimizationLevel: level, logSeverityLevel: 4, intraOpNumThreads: 1});

// ---- protocol buffers -----------------------------------------------------------------------------------------------

/** Fields of a message: [number, value], a value being a BigInt or a Buffer. */
function fields(bytes) {
  const result = [];
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n;; shift += 7n) {
      const byte = bytes[at++];
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const take = length => bytes.subarray(at, at += length);
  while (at < bytes.length) {
    const tag = Number(varint());
    const kind = tag & 7;
    result.push([tag >> 3, kind === 0 ? varint() : kind === 1 ? take(8) : kind === 5 ? take(4) : take(Number(varint()))]);
  }
  return result;
}

const values = (message, number) => message.filter(([field]) => field === number).map(([, value]) => value);

function encodeVarint(value) {
  const bytes = [];
  for (value = BigInt.asUintN(64, BigInt(value)); value >= 0x80n; value >>= 7n) bytes.push(Number(value & 0x7fn) | 0x80);
  return Buffer.from([...bytes, Number(value)]);
}

const encodeNumber = (field, value) => Buffer.concat([encodeVarint(field << 3), encodeVarint(value)]);
const encodeBytes = (field, bytes) => Buffer.concat([encodeVarint(field << 3 | 2), encodeVarint(bytes.length), bytes]);

// ---- tensors --------------------------------------------------------------------------------------------------------

/** Element types of ONNX: name, array, the field of TensorProto that holds them where they are not raw. */
const types = {
  1: ['float32', Float32Array, 4], 2: ['uint8', Uint8Array, 5], 3: ['int8', Int8Array, 5], 4: ['uint16', Uint16Array, 5],
  5: ['int16', Int16Array, 5], 6: ['int32', Int32Array, 5], 7: ['int64', BigInt64Array, 7], 9: ['bool', Uint8Array, 5],
  10: ['float16', Uint16Array, 5], 11: ['float64', Float64Array, 10], 12: ['uint32', Uint32Array, 11],
  13: ['uint64', BigUint64Array, 11],
};

const integersOf = packed => packed.flatMap(value => {
  if (typeof value === 'bigint') return [value];
  const list = [];
  for (let at = 0; at < value.length;) {
    let number = 0n;
    for (let shift = 0n;; shift += 7n) {
      const byte = value[at++];
      number |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    list.push(number);
  }
  return list;
});

function aligned(bytes, Elements) {
  const copy = new Uint8Array(bytes);
  return new Elements(copy.buffer, 0, copy.length / Elements.BYTES_PER_ELEMENT);
}

function readTensor(file) {
  const message = fields(fs.readFileSync(file));
  const type = types[Number(values(message, 2)[0])];
  if (!type) throw new Error('an element type that is not read');
  const [name, Elements, field] = type;
  const dims = integersOf(values(message, 1)).map(Number);
  const raw = values(message, 9);
  if (raw.length) return new ort.Tensor(name, aligned(raw[0], Elements), dims);
  const stored = values(message, field);
  if (field === 4 || field === 10) return new ort.Tensor(name, aligned(Buffer.concat(stored), Elements), dims);
  const numbers = integersOf(stored);
  const isBig = Elements === BigInt64Array || Elements === BigUint64Array;
  return new ort.Tensor(name, Elements.from(numbers, value => isBig ? value : Number(BigInt.asIntN(64, value))), dims);
}

const bytesOf = tensor => Buffer.from(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);

function encodeTensor(tensor) {
  const number = Object.keys(types).find(key => types[key][0] === tensor.type);
  if (!number) throw new Error('an element type that is not written');
  return Buffer.concat([...tensor.dims.map(extent => encodeNumber(1, extent)), encodeNumber(2, Number(number)),
                        encodeBytes(9, bytesOf(tensor))]);
}

// ---- suites ---------------------------------------------------------------------------------------------------------

async function runCase(folder, out, level) {
  const session = await ort.InferenceSession.create(path.join(folder, 'model.onnx'), options(level));
  for (const set of fs.readdirSync(folder).filter(name => name.startsWith('test_data_set_'))) {
    const feeds = {};
    session.inputNames.forEach((name, i) => feeds[name] = readTensor(path.join(folder, set, `input_${i}.pb`)));
    const results = await session.run(feeds);
    fs.mkdirSync(path.join(out, set), {recursive: true});
    session.outputNames.forEach((name, i) => {
      fs.writeFileSync(path.join(out, set, `output_${i}.pb`), encodeTensor(results[name]));
    });
  }
}

async function runSuite(level, suite, out) {
  let done = 0, refused = 0;
  for (const name of fs.readdirSync(suite).sort()) {
    const folder = path.join(suite, name), target = path.join(out, name);
    if (!fs.existsSync(path.join(folder, 'model.onnx'))) continue;
    try {
      await runCase(folder, target, level);
      ++done;
    } catch (error) {
      fs.rmSync(target, {recursive: true, force: true});
      ++refused;
    }
  }
  console.log(`${path.basename(suite)}: ONNX Runtime runs ${done} models, not ${refused}`);
}

/** Names of element types in .safetensors files. */
const safetensorsTypes = {float32: 'F32', float64: 'F64', float16: 'F16', int64: 'I64', int32: 'I32', int8: 'I8',
  uint8: 'U8', bool: 'BOOL'};

// ---- traces ---------------------------------------------------------------------------------------------------------

function readSafetensors(file) {
  const bytes = fs.readFileSync(file);
  const length = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + length).toString());
  const tensors = {};
  delete header.__metadata__;
  for (const [name, {dtype, shape, data_offsets: [first, last]}] of Object.entries(header)) {
    tensors[name] = {dtype, shape, bytes: bytes.subarray(8 + length + first, 8 + length + last)};
  }
  return tensors;
}

function writeSafetensors(file, tensors, metadata) {
  const header = {__metadata__: metadata};
  let offset = 0;
  for (const [name, {dtype, shape, bytes}] of Object.entries(tensors)) {
    header[name] = {dtype, shape, data_offsets: [offset, offset += bytes.length]};
  }
  let text = JSON.stringify(header);
  text += ' '.repeat((8 - Buffer.byteLength(text) % 8) % 8);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(text)));
  fs.writeFileSync(file, Buffer.concat([length, Buffer.from(text), ...Object.values(tensors).map(t => t.bytes)]));
}

/** The layers of a model by name: what each node's first output is called. */
function layersOf(model) {
  const graph = fields(values(fields(model), 7)[0]);
  return values(graph, 1).map(node => {
    const message = fields(node);
    const output = values(message, 2)[0].toString();
    return {name: (values(message, 3)[0] || '').toString() || output, output};
  });
}

/** Messages of a field that occurs twice are merged: the outputs are added behind the model. */
function withOutputs(model, names) {
  return Buffer.concat([model, encodeBytes(7, Buffer.concat(
      names.map(name => encodeBytes(12, encodeBytes(1, Buffer.from(name))))))]);
}

async function runTrace(level, file, run, out) {
  const model = fs.readFileSync(file);
  const plain = await ort.InferenceSession.create(model, options('disabled'));
  const layers = layersOf(model);
  const added = [...new Set(layers.map(layer => layer.output))].filter(name => !plain.outputNames.includes(name));
  const session = await ort.InferenceSession.create(withOutputs(model, added), options(level));
  const tensors = readSafetensors(run);
  const feeds = {};
  for (const name of session.inputNames) {
    const {shape, bytes} = tensors['input/' + name.replaceAll('/', '.')];
    const rank = session.inputMetadata.find(input => input.name === name).shape.length;
    feeds[name] = new ort.Tensor('float32', aligned(bytes, Float32Array), shape.slice(shape.length - rank));
  }
  const results = await session.run(feeds);
  const outputs = new Map(layers.map(layer => [layer.name.replaceAll('/', '.'), results[layer.output]]));
  let own = 0;
  for (const key of Object.keys(tensors).filter(key => key.startsWith('layer/'))) {
    const tensor = outputs.get(key.split('/')[2]);
    if (tensor) tensors[key] = {...tensors[key], bytes: bytesOf(tensor)};
    else ++own;
  }
  writeSafetensors(out, tensors, {'driftbound.trace': '1', provenance: JSON.stringify({
    program: 'onnxruntime-node', backend: 'cpu', details: {optimisation: level, 'layers of driftbound': String(own)}})});
}

const optimise = (level, file, out) =>
    ort.InferenceSession.create(file, {...options(level), optimizedModelFilePath: out});

async function runValues(level, file, inputs, out) {
  const model = fs.readFileSync(file);
  const graph = fields(values(fields(model), 7)[0]);
  const names = values(graph, 1).flatMap(node => values(fields(node), 2).map(String)).filter(name => name);
  const plain = await ort.InferenceSession.create(model, options(level));
  const added = [...new Set(names)].filter(name => !plain.outputNames.includes(name));
  const session = await ort.InferenceSession.create(withOutputs(model, added), options(level));
  const given = readSafetensors(inputs);
  const feeds = {};
  for (const name of session.inputNames) {
    const {dtype, shape, bytes} = given[name];
    const [type, Elements] = Object.values(types).find(([type]) => safetensorsTypes[type] === dtype);
    feeds[name] = new ort.Tensor(type, aligned(bytes, Elements), shape);
  }
  const tensors = {};
  for (const [name, tensor] of Object.entries(await session.run(feeds))) {
    if (safetensorsTypes[tensor.type])
      tensors[name] = {dtype: safetensorsTypes[tensor.type], shape: tensor.dims, bytes: bytesOf(tensor)};
  }
  writeSafetensors(out, tensors, {});
}

const [command, ...rest] = process.argv.slice(2);
({suite: runSuite, trace: runTrace, optimise, values: runValues})[command](...rest).catch(error => {
  console.error(error.message);
  process.exit(1);
});
