// The image of the next message: chosen, stored on the server, previewed, described, removed.

import { say, warn } from "./delivery.js";
import { uuid } from "./outbox.js";
import { byId, hiddenSet } from "./page.js";

const MOST_BYTES = 5 * 1024 * 1024;
const LONGEST_SIDE = 2048;

// A file too large for the server is scaled down, such as a photograph from a phone.
async function shrunk(file) {
  if (file.size <= MOST_BYTES) return file;
  try {
    const bitmap = await createImageBitmap(file);
    const scale = Math.min(1, LONGEST_SIDE / Math.max(bitmap.width, bitmap.height));
    const canvas = new OffscreenCanvas(bitmap.width * scale, bitmap.height * scale);
    canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    return await canvas.convertToBlob({ type: "image/jpeg", quality: 0.9 });
  } catch {
    return file; // not an image this browser can read: the server reports it
  }
}

export class ImageChooser {
  #image = null; // as stored by the server: {id, url}
  #request = null;

  constructor(words) {
    this.words = words;
    this.file = byId("image-file");
    byId("image-attach").hidden = false;
    this.file.addEventListener("change", () => this.#send(this.file.files[0]));
    byId("image-remove").addEventListener("click", () => {
      this.#show(null);
      say(this.words.image_removed);
    });
  }

  get isChosen() {
    return this.#image !== null;
  }

  get isComing() {
    return this.#request !== null;
  }

  async #send(chosen) {
    if (!chosen) return;
    this.#request?.abort();
    this.#show(null);
    warn("");
    const form = byId("image-form");
    const data = new FormData(form);
    const request = new XMLHttpRequest(); // fetch reports no progress
    this.#request = request;
    byId("image-progress").hidden = false;
    byId("image-progress").value = 0;
    data.append("client_id", uuid());
    data.append("image", await shrunk(chosen), "image");
    if (this.#request !== request) return; // another image was chosen meanwhile
    request.upload.addEventListener("progress", ({ loaded, total }) => {
      byId("image-progress").value = loaded / total;
    });
    request.addEventListener("loadend", () => {
      if (this.#request === request) this.#arrived(request);
    });
    request.responseType = "json";
    request.open("POST", form.action);
    request.send(data);
  }

  #arrived({ status, response }) {
    this.#request = null;
    byId("image-progress").hidden = true;
    this.file.value = ""; // the same file can be chosen again
    if (status === 201) {
      this.#show(response);
      say(this.words.image_added);
    } else {
      warn(response?.message ?? (status === 413 ? this.words.image_too_large : this.words.image_failed));
    }
  }

  #show(image, description = "") {
    this.#image = image;
    byId("image-words").value = description;
    if (image) byId("image-thumb").src = image.url;
    else byId("image-thumb").removeAttribute("src");
    hiddenSet(byId("image-chosen"), !image, () => this.file);
  }

  // What the message contains; nothing without an image.
  take() {
    if (!this.#image) return {};
    const { id, url } = this.#image;
    const image = { id, url, description: byId("image-words").value.trim() };
    this.#show(null);
    return { image };
  }

  // The message was refused: its image is next to the box again.
  giveBack(image) {
    if (image && this.file) this.#show(image, image.description);
  }
}
