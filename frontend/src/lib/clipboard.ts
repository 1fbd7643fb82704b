/** Puts text on the clipboard, also on pages without https, where browsers offer no clipboard API. */

export async function copyText(text: string): Promise<void> {
  if (window.isSecureContext) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  const focused = document.activeElement;
  // Inside of the open dialog, if any: nothing outside of it can be selected.
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  if (!isCopied) throw new Error("the browser refused to copy");
}
