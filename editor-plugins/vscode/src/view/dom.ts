// Small helpers for elements.

type Child = Node | string | undefined | false;
type Properties = { [name: string]: unknown };

/** Creates an element; `on…` are listeners, `aria…`, `role` and `for` attributes, others properties. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined) {
      continue;
    }
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value as EventListener);
    } else if (name === "role" || name === "for" || name.startsWith("aria-")) {
      element.setAttribute(name, String(value));
    } else {
      (element as Properties)[name] = value;
    }
  }
  element.append(...children.filter((child) => child !== undefined && child !== false));
  return element;
}

export function button(text: string, onclick: () => void, properties: Properties = {}): HTMLButtonElement {
  return h("button", { type: "button", onclick, ...properties }, text);
}

/** A unified diff with marked lines. */
export function diffOf(text: string): HTMLElement {
  const lines = text.replace(/\n$/, "").split("\n");
  const kind = (line: string): string =>
    /^(---|\+\+\+|@@)/.test(line) ? "meta" : line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "";
  return h("pre", { className: "diff", tabIndex: 0 }, ...lines.map((line) => h("span", { className: kind(line) }, `${line}\n`)));
}
