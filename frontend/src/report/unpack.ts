/** Data out of the file's own elements: a JSON string of base64 of gzip of JSON. */

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let place = 0; place < binary.length; place += 1) bytes[place] = binary.charCodeAt(place);
  return bytes;
}

export async function unpackText<T>(packed: string): Promise<T> {
  const stream = new Blob([bytesOf(packed)]).stream();
  const plain = stream.pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(plain).json()) as T;
}

export function unpackElement<T>(id: string): Promise<T> {
  const text = document.getElementById(id)?.textContent ?? "";
  if (text === "") return Promise.reject(new Error(`The file has no element ${id}.`));
  return unpackText<T>(JSON.parse(text) as string);
}
