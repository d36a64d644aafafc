// Small comforts: copying a block of commands, and looking at a picture in its full size.
"use strict";

(() => {
  const words = document.documentElement.lang.startsWith("zh")
    ? { copy: "复制", copied: "已复制", whole: "查看原图" }
    : { copy: "Copy", copied: "Copied", whole: "Open the picture in its full size" };

  if (navigator.clipboard) {
    document.querySelectorAll("div.highlight-sh, div.highlight-bash").forEach((block) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = words.copy;
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(block.querySelector("pre").textContent.trimEnd());
        button.textContent = words.copied;
        setTimeout(() => (button.textContent = words.copy), 1500);
      });
      block.append(button);
    });
  }

  document.querySelectorAll("article img").forEach((picture) => {
    if (picture.closest("a")) return;
    const link = document.createElement("a");
    link.href = picture.src;
    link.className = "whole";
    link.title = words.whole;
    picture.replaceWith(link);
    link.append(picture);
  });

  // Wide tables scroll in a box of their own: it must be reachable with the keyboard.
  document.querySelectorAll("article .table-wrapper").forEach((box) => {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  });
})();
