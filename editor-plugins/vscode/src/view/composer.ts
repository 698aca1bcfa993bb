// The prompt box: text, completion of `@` files, and how a message to a running session is delivered.

import { button, h } from "./dom";

export type Delivery = "queue" | "steer" | "interrupt";

export interface Item {
  name: string;
  uri: string;
  kind: string;
  detail?: string;
}

type Link = Pick<Item, "name" | "uri">;

export interface ComposerActions {
  /** Sends a message; `images` are in base64. */
  send(text: string, delivery: Delivery, context: { uri: string }[], images: string[]): Promise<boolean>;
  stop(): void;
  complete(query: string): Promise<Item[]>;
}

export class Composer {
  readonly element: HTMLElement;
  private readonly input: HTMLTextAreaElement;
  private readonly list: HTMLElement;
  private readonly delivery: HTMLSelectElement;
  private readonly submit: HTMLButtonElement;
  private readonly stop: HTMLButtonElement;
  private readonly actions: ComposerActions;
  private readonly onDraft: (text: string) => void;
  /** Links by the name that the text has after `@`. */
  private readonly links = new Map<string, string>();
  /** Pasted images in base64, each with the button that removes it. */
  private images = new Map<HTMLElement, string>();
  private readonly imageRow = h("div", { className: "row images", role: "group", "aria-label": "Images" });
  /** The images that are being read. */
  private reading: Promise<unknown> = Promise.resolve();
  private items: Item[] = [];
  private selected = 0;
  private asked = 0;
  /** Whether the user sent the text before a session was open. */
  private isSent = false;

  constructor(actions: ComposerActions, draft: string, onDraft: (text: string) => void) {
    this.actions = actions;
    this.onDraft = onDraft;
    this.input = h("textarea", {
      id: "prompt",
      rows: 2,
      value: draft,
      placeholder: "Ask Pilcrow; @ adds a file, symbol or session",
      role: "combobox",
      "aria-label": "Prompt",
      "aria-autocomplete": "list",
      "aria-haspopup": "listbox",
      "aria-expanded": "false",
      "aria-controls": "completions",
      onkeydown: (event: KeyboardEvent) => this.onKey(event),
      oninput: () => this.onInput(),
      onpaste: (event: ClipboardEvent) => this.onPaste(event),
      onblur: () => this.close(),
    });
    this.list = h("ul", { id: "completions", className: "completions", role: "listbox", "aria-label": "Links", hidden: true });
    this.delivery = h(
      "select",
      { title: "Queue: after the run. Steer: after this turn. Interrupt: now", "aria-label": "Delivery", hidden: true },
      h("option", { value: "queue" }, "Queue"),
      h("option", { value: "steer" }, "Steer"),
      h("option", { value: "interrupt" }, "Interrupt"),
    );
    this.stop = button("Stop", () => this.actions.stop(), { hidden: true, className: "secondary", title: "Stop the run" });
    this.submit = button("Send", () => void this.send(), { title: "Send (Enter)" });
    this.element = h(
      "div",
      { className: "composer" },
      this.list,
      this.input,
      this.imageRow,
      h("div", { className: "row" }, this.delivery, h("span", { className: "space" }), this.stop, this.submit),
    );
  }

  setRunning(isRunning: boolean): void {
    this.delivery.hidden = !isRunning;
    this.stop.hidden = !isRunning;
  }

  /** Notes whether a session is open, and sends what the user sent before. */
  setEnabled(isEnabled: boolean): void {
    this.submit.disabled = !isEnabled;
    if (isEnabled && this.isSent) {
      void this.send();
    }
  }

  focus(): void {
    this.input.focus();
  }

  /** Sets the text, to be edited and sent again. */
  setText(text: string): void {
    this.input.value = text;
    this.onDraft(text);
    this.grow();
    this.focus();
  }

  /** Removes the text unless the user changed it. */
  removeText(text: string): void {
    if (this.input.value === text) {
      this.setText("");
    }
  }

  /** Inserts a link to a file, or to lines of one, at the cursor. */
  attach({ name, uri }: Link): void {
    const { selectionStart, value } = this.input;
    const before = value.slice(0, selectionStart);
    this.insert(`${before && !/\s$/.test(before) ? " " : ""}@${name} `, selectionStart);
    this.links.set(name, uri);
    this.focus();
  }

  private insert(text: string, from: number): void {
    this.input.setRangeText(text, from, this.input.selectionStart, "end");
    this.onDraft(this.input.value);
    this.grow();
  }

  private async send(): Promise<void> {
    await this.reading;
    const text = this.input.value.trim();
    this.isSent = this.submit.disabled && text !== "";
    if (!text || this.isSent) {
      return;
    }
    const linked = [...this.links].filter(([name]) => text.includes(`@${name}`));
    const delivery = this.delivery.hidden ? "queue" : (this.delivery.value as Delivery);
    this.input.value = "";
    this.onDraft("");
    this.grow();
    const context = linked.map(([, uri]) => ({ uri }));
    const images = this.images;
    this.setImages(new Map());
    if (await this.actions.send(text, delivery, context, [...images.values()])) {
      linked.forEach(([name]) => this.links.delete(name));
    } else {
      this.setImages(new Map([...images, ...this.images]));
      this.setText([text, this.input.value].filter(Boolean).join("\n"));
    }
  }

  private onKey(event: KeyboardEvent): void {
    if (event.isComposing) {
      return;
    }
    if (!this.list.hidden) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        event.preventDefault();
        this.select((this.selected + step + this.items.length) % this.items.length);
        return;
      }
      if (event.key === "Enter" || event.key === "Tab") {
        event.preventDefault();
        this.accept(this.selected);
        return;
      }
      if (event.key === "Escape") {
        event.preventDefault();
        event.stopPropagation();
        this.close();
        return;
      }
    }
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      void this.send();
    }
  }

  private setImages(images: Map<HTMLElement, string>): void {
    this.images = images;
    this.imageRow.replaceChildren(...images.keys());
  }

  private onPaste(event: ClipboardEvent): void {
    const files = [...(event.clipboardData?.files ?? [])].filter((file) => file.type.startsWith("image/"));
    if (files.length > 0) {
      event.preventDefault();
    }
    for (const file of files) {
      const reader = new FileReader();
      const read = new Promise((resolve) => (reader.onloadend = resolve));
      this.reading = Promise.all([this.reading, read]);
      reader.onload = () => {
        const url = reader.result as string;
        const image = h("img", { src: url, alt: "" });
        const remove: HTMLElement = h(
          "button",
          {
            className: "image",
            title: `Remove ${file.name}`,
            "aria-label": `Remove ${file.name}`,
            onclick: () => {
              this.images.delete(remove);
              remove.remove();
              this.focus();
            },
          },
          image,
          "×",
        );
        this.images.set(remove, url.slice(url.indexOf(",") + 1));
        this.imageRow.append(remove);
      };
      reader.readAsDataURL(file);
    }
  }

  private onInput(): void {
    this.onDraft(this.input.value);
    this.grow();
    const query = this.query();
    if (query === undefined) {
      this.close();
      return;
    }
    this.asked += 1;
    const asked = this.asked;
    void this.actions.complete(query).then((items) => {
      if (asked === this.asked) {
        this.show(items);
      }
    });
  }

  /** The text between an `@` and the cursor. */
  private query(): string | undefined {
    return /(?:^|\s)@(\S*)$/.exec(this.input.value.slice(0, this.input.selectionStart))?.[1];
  }

  private show(items: Item[]): void {
    this.items = items;
    this.list.hidden = items.length === 0;
    this.input.setAttribute("aria-expanded", String(items.length > 0));
    this.list.replaceChildren(
      ...items.map((item, index) =>
        h(
          "li",
          {
            id: `completion-${index}`,
            role: "option",
            onmousedown: (event: MouseEvent) => {
              event.preventDefault();
              this.accept(index);
            },
          },
          item.name,
          h("span", { className: "kind" }, item.detail ?? item.kind),
        ),
      ),
    );
    if (items.length > 0) {
      this.select(0);
    }
  }

  private select(index: number): void {
    this.selected = index;
    [...this.list.children].forEach((child, at) => child.setAttribute("aria-selected", String(at === index)));
    this.list.children[index]?.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", `completion-${index}`);
  }

  private accept(index: number): void {
    const item = this.items[index];
    const query = this.query();
    this.close();
    if (item && query !== undefined) {
      this.insert(`${item.name} `, this.input.selectionStart - query.length);
      this.links.set(item.name, item.uri);
    }
  }

  private close(): void {
    this.asked += 1;
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  private grow(): void {
    this.input.style.height = "auto";
    this.input.style.height = `${Math.min(this.input.scrollHeight + 2, 240)}px`;
  }
}
